// examples/ai-run's `AI.run`, as code that was written for the Workers AI binding calls it.

import { account, key, model, play, prompt, readEvents, session, thrownBy, url } from "./cases.mjs";

const { AI } = await import(process.env.AI_RUN);
const env = { AI: new AI({ url, account, token: key }) };
const messages = [{ role: "user", content: prompt }];
const extraHeaders = session ? { "x-session-affinity": session } : {};

await play({
  async text() {
    const result = await env.AI.run(model, { messages }, { extraHeaders });
    return { result, id: env.AI.lastRequestId };
  },
  async stream() {
    const stream = await env.AI.run(model, { messages, stream: true }, { extraHeaders });
    return { isStream: stream instanceof ReadableStream, ...(await readEvents(stream)) };
  },
  async conversation() {
    const first = await env.AI.run(model, { messages }, { extraHeaders });
    const said = { role: "assistant", content: first.choices[0].message.content };
    const more = [...messages, said, { role: "user", content: "More." }];
    return [first.usage, (await env.AI.run(model, { messages: more }, { extraHeaders })).usage];
  },
  responses: () => env.AI.run(model, { input: prompt, reasoning: { effort: "low" } }),
  async queue() {
    const queued = await env.AI.run(model, { requests: [{ messages }] }, { queueRequest: true });
    for (let looks = 0; looks < 300; looks += 1) {
      const found = await env.AI.run(model, { request_id: queued.request_id });
      if (found.responses) return { queued, found };
      await new Promise((wake) => setTimeout(wake, 100));
    }
    return { queued };
  },
  async raw() {
    const response = await env.AI.run(model, { messages }, { returnRawResponse: true });
    return { isResponse: response instanceof Response, status: response.status, body: await response.json() };
  },
  error: () => thrownBy(() => env.AI.run(model, { messages }, { rejectIfBusy: true }), told),
  stranger: () => {
    const stranger = new AI({ url, account, token: "psk_nobody" });
    return thrownBy(() => stranger.run(model, { messages }), told);
  },
  async aborted() {
    const leaving = new AbortController();
    const stream = await env.AI.run(model, { messages, stream: true }, { signal: leaving.signal });
    await stream.getReader().read();
    leaving.abort();
    return {};
  },
});

function told(error) {
  const { name, message, internalCode, status, retryAfter, requestId } = error;
  return { isError: error instanceof Error, name, message, internalCode, status, retryAfter, requestId };
}
