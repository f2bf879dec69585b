// What every script here has in common: where to go, and one case by name, whose result is the last line.

export const {
  PENSTOCK_URL: url,
  PENSTOCK_KEY: key,
  PENSTOCK_ACCOUNT: account,
  MODEL: model,
  PROMPT: prompt,
  SESSION: session,
} = process.env;

/** Runs the case that CASE names, and prints what it returns. */
export async function play(cases) {
  console.log(JSON.stringify(await cases[process.env.CASE]()));
}

/** What a call throws, as `tell` sees it; that it throws nothing is an error. */
export async function thrownBy(call, tell) {
  try {
    await call();
  } catch (error) {
    return tell(error);
  }
  throw new Error("nothing was thrown");
}

/** The JSON of each server-sent event, and whether [DONE] came last. */
export async function readEvents(stream) {
  let text = "";
  for await (const piece of stream.pipeThrough(new TextDecoderStream())) text += piece;
  const lines = text.split("\n\n").filter((part) => part.startsWith("data: "));
  const data = lines.map((line) => line.slice("data: ".length));
  const isDone = data.at(-1) === "[DONE]";
  return { isDone, events: data.slice(0, isDone ? -1 : undefined).map((line) => JSON.parse(line)) };
}
