// A Worker as one writes it for Workers AI: it knows `env.AI` and nothing of where that leads.

const MODEL = "@cf/moonshotai/kimi-k2.5";
const INSTRUCTIONS = "You answer questions about water mills in one short sentence.";

export default {
  async fetch(request, env) {
    const address = new URL(request.url);
    const question = address.searchParams.get("q");
    if (!question) return Response.json({ error: "ask with ?q=" }, { status: 400 });
    const stream = address.searchParams.has("stream");
    // The same words first and one name for the conversation: its prefix is found in the cache again.
    const messages = [
      { role: "system", content: INSTRUCTIONS },
      { role: "user", content: question },
    ];
    const extraHeaders = { "x-session-affinity": address.searchParams.get("session") ?? "ses_mills" };
    try {
      const answer = await env.AI.run(env.MODEL ?? MODEL, { messages, stream }, { extraHeaders });
      if (stream) return new Response(answer, { headers: { "content-type": "text/event-stream" } });
      return Response.json({ text: answer.choices[0].message.content, usage: answer.usage });
    } catch (error) {
      if (error.name !== "InferenceUpstreamError") throw error;
      return Response.json({ error: error.message }, { status: error.status });
    }
  },
};
