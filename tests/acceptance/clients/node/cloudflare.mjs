// The cloudflare SDK's `ai.run`, unchanged but for its base URL. It encodes the slashes of a model's name.

import Cloudflare from "cloudflare";

import { account, key, model, play, prompt, readEvents, session, thrownBy, url } from "./cases.mjs";

const client = connect(key);
const messages = [{ role: "user", content: prompt }];
const level = {
  type: "object",
  properties: { river: { type: "string" }, metres: { type: "number" } },
  required: ["river", "metres"],
};
const flatTool = { name: "read_level", description: "The level of a river.", parameters: level };

await play({
  text: () => run({ messages }),
  prompt: () => run({ prompt }),
  tools: () => run({ messages, tools: [{ type: "function", function: flatTool }] }),
  flatTools: () => run({ messages, tools: [flatTool] }),
  structured: () => run({ messages, response_format: { type: "json_schema", json_schema: level } }),
  async stream() {
    const response = await client.ai.run(model, { account_id: account, messages, stream: true }).asResponse();
    return { url: response.url, ...(await readEvents(response.body)) };
  },
  async conversation() {
    const first = await run({ messages });
    const said = first.choices[0].message.content;
    const more = [...messages, { role: "assistant", content: said }, { role: "user", content: "More." }];
    return [first.usage, (await run({ messages: more })).usage];
  },
  async queue() {
    const query = { queueRequest: "true" };
    const requests = [{ messages, external_reference: "first" }, { messages }];
    const queued = await run({ requests }, { query });
    for (let looks = 0; looks < 300; looks += 1) {
      const found = await run({ request_id: queued.request_id }, { query });
      if (found.responses) return { queued, found };
      await new Promise((wake) => setTimeout(wake, 100));
    }
    return { queued };
  },
  async models() {
    const found = [];
    for await (const each of client.ai.models.list({ account_id: account })) found.push(each.name);
    return found;
  },
  error: () => thrownBy(() => run({ messages }), told),
  stranger: () =>
    thrownBy(() => connect("psk_nobody").ai.run(model, { account_id: account, messages }), told),
});

function connect(apiToken) {
  const defaultHeaders = session ? { "x-session-affinity": session } : {};
  return new Cloudflare({ apiToken, baseURL: `${url}/client/v4`, defaultHeaders, maxRetries: 0 });
}

function run(inputs, options) {
  return client.ai.run(model, { account_id: account, ...inputs }, options);
}

function told(error) {
  return { name: error.constructor.name, status: error.status, errors: error.errors };
}
