// `env.AI` outside of Workers: `AI.run(model, inputs, options)` over REST, for code that was written for the
// Workers AI binding. It returns what the binding returns and throws what the binding throws. It does not
// retry, and it knows nothing of the binding's other methods.

/** What the binding throws: `name`, and a message that begins with the internal code. */
export class InferenceUpstreamError extends Error {
  constructor(internalCode, description, response) {
    super(`${internalCode}: ${description}`);
    this.name = "InferenceUpstreamError";
    this.internalCode = internalCode;
    this.status = response.status;
    this.retryAfter = response.headers.get("retry-after");
    this.requestId = response.headers.get("cf-ai-req-id");
  }
}

export class AI {
  #runs;
  #token;
  #fetch;

  /** The id of the last request, to ask the ledger or an operator about. */
  lastRequestId = null;

  constructor({ url, account, token, fetch = globalThis.fetch }) {
    this.#runs = `${url}/client/v4/accounts/${account}/ai/run/`;
    this.#token = token;
    this.#fetch = fetch;
  }

  /** The result without its envelope; with `stream: true`, a ReadableStream of server-sent events. */
  async run(model, inputs, options = {}) {
    const response = await this.#ask(model, inputs, options);
    this.lastRequestId = response.headers.get("cf-ai-req-id");
    if (options.returnRawResponse) return unwrapped(response);
    if (!response.ok) throw await failure(response);
    return isJson(response) ? (await response.json()).result : response.body;
  }

  #ask(model, inputs, { extraHeaders = {}, signal, ...options }) {
    if (options.websocket) throw new TypeError("AI.run: websocket is not spoken over REST");
    return this.#fetch(this.#runs + model + query(options), {
      method: "POST",
      headers: {
        ...extraHeaders,
        authorization: `Bearer ${this.#token}`,
        "content-type": "application/json",
      },
      body: JSON.stringify(inputs),
      signal,
    });
  }
}

// The options that say how the server shall run it. REST takes them in the query; what else the binding takes
// (`gateway`, `prefix`) has no meaning here.
const RUN_OPTIONS = ["queueRequest", "rejectIfBusy", "tags"];

function query(options) {
  const given = RUN_OPTIONS.filter((name) => options[name] !== undefined);
  const words = new URLSearchParams(given.map((name) => [name, String(options[name])]));
  return given.length ? `?${words}` : "";
}

/** A raw response as the binding has it: its JSON is the result alone. */
async function unwrapped(response) {
  if (!response.ok || !isJson(response)) return response;
  const { result } = await response.json();
  const headers = new Headers(response.headers);
  headers.delete("content-length");
  return new Response(JSON.stringify(result), { status: response.status, headers });
}

async function failure(response) {
  const text = await response.text();
  let first;
  try {
    [first] = JSON.parse(text).errors;
  } catch {
    // A proxy in between may answer with a page.
    first = { code: response.status, message: text };
  }
  return new InferenceUpstreamError(first.code, first.message, response);
}

function isJson(response) {
  return (response.headers.get("content-type") ?? "").startsWith("application/json");
}
