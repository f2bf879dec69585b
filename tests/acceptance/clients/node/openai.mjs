// The openai SDK on chat completions and Responses, unchanged but for its base URL.

import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { key, model, play, prompt, session, thrownBy, url } from "./cases.mjs";

const client = connect(key);
const question = { model, messages: [{ role: "user", content: prompt }] };
const Level = z.object({ river: z.string(), metres: z.number(), isRising: z.boolean() });

await play({
  async models() {
    const found = [];
    for await (const each of client.models.list()) found.push(each.id);
    return { found, one: (await client.models.retrieve(model)).id };
  },
  async text() {
    const answer = await client.chat.completions.create(question);
    return { text: answer.choices[0].message.content, usage: answer.usage, id: answer._request_id };
  },
  async stream() {
    const stream = client.chat.completions.stream({ ...question, stream_options: { include_usage: true } });
    let pieces = 0;
    stream.on("content", () => (pieces += 1));
    const answer = await stream.finalChatCompletion();
    return { text: answer.choices[0].message.content, usage: answer.usage, pieces };
  },
  async tools() {
    const asked = [];
    const tool = {
      type: "function",
      function: {
        name: "read_level",
        description: "The level of a river.",
        parameters: { type: "object", properties: { river: { type: "string" } }, required: ["river"] },
        parse: JSON.parse,
        function: ({ river }) => {
          asked.push(river);
          return { metres: 2.5 };
        },
      },
    };
    const runner = client.chat.completions.runTools({ ...question, tools: [tool], stream: true });
    return { text: await runner.finalContent(), asked, roles: runner.messages.map((each) => each.role) };
  },
  async structured() {
    const response_format = zodResponseFormat(Level, "level");
    const answer = await client.chat.completions.parse({ ...question, response_format });
    return { parsed: answer.choices[0].message.parsed };
  },
  async conversation() {
    const messages = [...question.messages];
    const usages = [];
    for (const next of ["And then?", "And at the end?"]) {
      const answer = await client.chat.completions.create({ model, messages });
      usages.push(answer.usage);
      messages.push(answer.choices[0].message, { role: "user", content: next });
    }
    return { usages };
  },
  error: () => thrownBy(() => client.chat.completions.create(question), told),
  brokenStream: () => thrownBy(() => client.chat.completions.stream(question).finalChatCompletion(), told),
  stranger: () => thrownBy(() => connect("psk_nobody").chat.completions.create(question), told),
  async responses() {
    const answer = await client.responses.create({ model, input: prompt, store: false });
    return { text: answer.output_text, usage: answer.usage, status: answer.status };
  },
  async responsesStream() {
    const stream = client.responses.stream({ model, input: prompt, store: false });
    const types = [];
    for await (const event of stream) types.push(event.type);
    const answer = await stream.finalResponse();
    return { text: answer.output_text, usage: answer.usage, types };
  },
  storedResponse: () =>
    thrownBy(() => client.responses.create({ model, input: prompt, previous_response_id: "resp_1" }), told),
});

function connect(apiKey) {
  const defaultHeaders = session ? { "x-session-affinity": session } : {};
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, defaultHeaders, maxRetries: 0 });
}

function told(error) {
  return { name: error.constructor.name, status: error.status, code: error.code, message: error.message };
}
