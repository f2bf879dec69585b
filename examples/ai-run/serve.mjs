// Serves worker.mjs on Node, with `env.AI` from the environment:
//   PENSTOCK_URL=http://127.0.0.1:8787 PENSTOCK_ACCOUNT=… PENSTOCK_KEY=psk_… node serve.mjs
// PORT (8790; 0 = any free one) and MODEL may be given too.

import { createServer } from "node:http";
import { Readable } from "node:stream";

import { AI } from "./ai-run.mjs";
import worker from "./worker.mjs";

const { PENSTOCK_URL: url, PENSTOCK_ACCOUNT: account, PENSTOCK_KEY: token, MODEL, PORT } = process.env;
const env = { AI: new AI({ url, account, token }), MODEL };

const server = createServer(async (incoming, outgoing) => {
  try {
    const address = new URL(incoming.url, "http://127.0.0.1");
    const answer = await worker.fetch(new Request(address, { method: incoming.method }), env);
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
    Readable.fromWeb(answer.body).pipe(outgoing);
  } catch (error) {
    console.error(error);
    outgoing.writeHead(500).end();
  }
});

server.listen(Number(PORT ?? 8790), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/?q=What+turns+the+wheel`);
});
