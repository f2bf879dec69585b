// The AI SDK with each provider that can reach Penstock; PROVIDER names one. What follows it is the same code.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { createWorkersAI } from "workers-ai-provider";
import { z } from "zod";

import { account, key, model, play, prompt, session, thrownBy, url } from "./cases.mjs";

const headers = session ? { "x-session-affinity": session } : {};
const sent = [];

const providers = {
  compatible: (apiKey) =>
    createOpenAICompatible({
      name: "penstock",
      baseURL: `${url}/v1`,
      apiKey,
      headers,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(model),
  chat: (apiKey) => createOpenAI({ baseURL: `${url}/v1`, apiKey, headers }).chat(model),
  responses: (apiKey) => createOpenAI({ baseURL: `${url}/v1`, apiKey, headers })(model),
  // It has no base URL; its host is replaced on the way out.
  workers: (apiKey) =>
    createWorkersAI({ accountId: account, apiKey, fetch: toPenstock })(model, { sessionAffinity: session }),
  binding: async (token) => {
    const { AI } = await import(process.env.AI_RUN);
    const binding = new AI({ url, account, token, fetch: counted });
    return createWorkersAI({ binding })(model, { sessionAffinity: session });
  },
};
const provider = providers[process.env.PROVIDER];
// Left to itself, OpenAI's provider names earlier items by their ids instead of sending them again.
const providerOptions = { openai: { store: false } };
const calls = { model: await provider(key), maxRetries: 0, providerOptions };
const question = { ...calls, prompt };

await play({
  async text() {
    const { text, usage, finishReason } = await generateText(question);
    return { text, usage, finishReason, sent };
  },
  async stream() {
    const stream = streamText(question);
    let pieces = 0;
    let text = "";
    for await (const piece of stream.textStream) {
      pieces += 1;
      text += piece;
    }
    return { text, pieces, usage: await stream.usage, finishReason: await stream.finishReason, sent };
  },
  async tools() {
    const asked = [];
    const read_level = tool({
      description: "The level of a river.",
      inputSchema: z.object({ river: z.string() }),
      execute: async ({ river }) => {
        asked.push(river);
        return { metres: 2.5 };
      },
    });
    const stream = streamText({ ...question, tools: { read_level }, stopWhen: isStepCount(3) });
    const text = await stream.text;
    return { text, asked, steps: (await stream.steps).map((step) => step.finishReason) };
  },
  async structured() {
    const schema = z.object({ river: z.string(), metres: z.number(), isRising: z.boolean() });
    const { output } = await generateText({ ...question, output: Output.object({ schema }) });
    return { output };
  },
  async conversation() {
    const messages = [{ role: "user", content: prompt }];
    const usages = [];
    for (const next of ["And then?", "And at the end?"]) {
      const answer = await generateText({ ...calls, messages });
      usages.push(answer.usage);
      messages.push({ role: "assistant", content: answer.text }, { role: "user", content: next });
    }
    return { usages };
  },
  error: () => thrownBy(() => generateText(question), told),
  stranger: async () => {
    const stranger = await provider("psk_nobody");
    return thrownBy(() => generateText({ ...question, model: stranger }), told);
  },
  async brokenStream() {
    const errors = [];
    const stream = streamText({ ...question, onError: ({ error }) => errors.push(String(error.message ?? error)) });
    for await (const piece of stream.textStream) void piece;
    return { errors, finishReason: await stream.finishReason.catch((error) => error.name) };
  },
});

function toPenstock(address, init) {
  return counted(String(address).replace("https://api.cloudflare.com", url), init);
}

function counted(address, init) {
  sent.push({ address: String(address).replace(url, ""), stream: JSON.parse(init.body).stream ?? false });
  return fetch(address, init);
}

function told(error) {
  return {
    name: error.name,
    status: error.statusCode,
    isRetryable: error.isRetryable,
    message: error.message,
    body: error.responseBody,
  };
}
