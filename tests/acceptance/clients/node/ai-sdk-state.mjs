// OpenAI's provider of the AI SDK with `store` left unset: it names earlier items by their ids.

import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { key, model, play, prompt, url } from "./cases.mjs";

const provider = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
// Each step keeps the body that was sent, so that a test can see the references in it.
const calls = { model: provider(model), maxRetries: 0, include: { requestBody: true } };
const read_level = tool({
  description: "The level of a river.",
  inputSchema: z.object({ river: z.string() }),
  execute: async () => ({ metres: 2.5 }),
});

await play({
  /** Two turns, the first whole and the second streamed with a tool. */
  async references() {
    const messages = [{ role: "user", content: prompt }];
    const first = await generateText({ ...calls, messages });
    messages.push(...first.response.messages, { role: "user", content: 'CALL read_level {"river":"Rhine"}' });
    const stream = streamText({ ...calls, messages, tools: { read_level }, stopWhen: isStepCount(3) });
    const text = await stream.text;
    const steps = await stream.steps;
    return {
      texts: [first.text, text],
      inputs: [...first.steps, ...steps].map(({ request }) => request.body.input),
    };
  },
});
