// The playground: one conversation, kept in this page alone. Answers are shown as text, never as markup.
const room = document.getElementById("playground");
if (room) start(room);

function start(room) {
  const settings = document.getElementById("ask");
  const talk = document.getElementById("talk");
  const say = document.getElementById("say");
  const stop = document.getElementById("stop");
  // Only answered messages and their answers: a refused or stopped message is not sent again. It can be copied.
  let messages = [], unanswered = [], running = null, total = 0, turn = 0, session = crypto.randomUUID();

  const element = (kind, name, text) => {
    const made = document.createElement(kind);
    if (name) made.className = name;
    if (text) made.textContent = text;
    return made;
  };

  function body(added = []) {
    const form = new FormData(settings);
    const system = form.get("system").trim(), said = [...messages, ...added];
    const asked = {
      model: form.get("model"),
      messages: system ? [{ role: "system", content: system }, ...said] : said,
      max_tokens: Number(form.get("max_tokens")),
      temperature: Number(form.get("temperature")),
    };
    const tools = form.get("tools").trim();
    if (tools) asked.tools = JSON.parse(tools);
    if (form.get("stream")) { asked.stream = true; asked.stream_options = { include_usage: true }; }
    return asked;
  }

  function labels() {
    const form = new FormData(settings);
    const found = { "x-session-affinity": session };
    if (form.get("workflow")) found["x-penstock-workflow"] = form.get("workflow");
    if (form.get("task")) found["x-penstock-task"] = form.get("task");
    return found;
  }

  // Sends the conversation with what is new, and returns whether it was answered to its end.
  async function ask(added) {
    let asked;
    try { asked = body(added); } catch (error) { note(`The tools are no JSON: ${error.message}`); return false; }
    unanswered = added;
    const answer = element("div", "said model");
    const text = answer.appendChild(element("p", "words"));
    const facts = answer.appendChild(element("p", "dim"));
    talk.appendChild(answer);
    running = new AbortController();
    stop.disabled = false;
    const began = performance.now();
    let first = 0;
    const state = { content: "", calls: [], usage: null, cost: "" };
    const begin = () => { first ||= performance.now(); };
    const grow = () => { text.textContent = state.content; answer.scrollIntoView({ block: "end" }); };
    try {
      const reply = await fetch("/console/playground/ask", {
        method: "POST", signal: running.signal, body: JSON.stringify(asked),
        headers: { "content-type": "application/json", "x-form-token": room.dataset.token, ...labels() },
      });
      const isStream = (reply.headers.get("content-type") || "").startsWith("text/event-stream");
      if (!reply.ok) throw new Error(await problem(reply));
      if (isStream) await readStream(reply, state, begin, grow);
      else { readWhole(await reply.json(), reply, state); grow(); }
      messages.push(...added, message(state));
      unanswered = [];
      facts.textContent = factsOf(state, reply, began, first);
      const id = reply.headers.get("x-penstock-request");
      if (id) facts.append(" ", link(id));
      if (state.calls.length) answer.append(...answering(state.calls));
      return true;
    } catch (error) {
      facts.textContent = error.name === "AbortError" ? "stopped" : error.message;
      facts.className = "problem";
      return false;
    } finally { running = null; stop.disabled = true; }
  }

  async function readStream(reply, state, begin, grow) {
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let left = "", isWhole = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (done && !isWhole) throw new Error("The stream was cut before its end.");
      if (done) return;
      left += value;
      const events = left.split("\n\n");
      left = events.pop();
      for (const event of events) {
        if (event.startsWith(": cost-usd ")) state.cost = event.slice(11).trim();
        isWhole ||= event === "data: [DONE]";
        if (!event.startsWith("data: ") || event === "data: [DONE]") continue;
        const data = JSON.parse(event.slice(6));
        if (data.error) throw new Error(data.error.message);
        if (data.usage) state.usage = data.usage;
        const delta = data.choices?.[0]?.delta;
        // A call of a tool is made of tokens, too.
        if (delta?.content || delta?.tool_calls?.length) begin();
        if (delta?.content) { state.content += delta.content; grow(); }
        for (const part of delta?.tool_calls || []) {
          const call = (state.calls[part.index] ||= { id: "", type: "function", function: { name: "", arguments: "" } });
          call.id ||= part.id || "";
          call.function.name += part.function?.name || "";
          call.function.arguments += part.function?.arguments || "";
        }
      }
    }
  }

  function readWhole(data, reply, state) {
    state.content = data.choices[0].message.content || "";
    state.calls = data.choices[0].message.tool_calls || [];
    state.usage = data.usage;
    state.cost = reply.headers.get("x-penstock-cost-usd") || "";
  }

  const message = (state) => state.calls.length
    ? { role: "assistant", content: state.content || null, tool_calls: state.calls }
    : { role: "assistant", content: state.content };

  async function problem(reply) {
    try { return (await reply.json()).error.message; } catch { return `The answer was ${reply.status}.`; }
  }

  function factsOf(state, reply, began, first) {
    const usage = state.usage || {}, cached = usage.prompt_tokens_details?.cached_tokens;
    const seconds = (performance.now() - (first || began)) / 1000;
    turn += 1;
    total += Number(state.cost) || 0;
    document.getElementById("sum").textContent = `session: ${turn} ${turn === 1 ? "turn" : "turns"}, $${total.toFixed(6)}`;
    const parts = [`turn ${turn}: prompt ${usage.prompt_tokens ?? "?"} tokens`, cached == null ? "" : `cached ${cached}`,
      `output ${usage.completion_tokens ?? "?"} tokens`, first ? `first token ${((first - began) / 1000).toFixed(2)} s` : "",
      usage.completion_tokens > 1 && seconds > 0.05 ? `${Math.round(usage.completion_tokens / seconds)} tokens a second` : "",
      state.cost ? `$${Number(state.cost).toFixed(6)}` : "", reply.headers.get("x-penstock-contract") || "", reply.headers.get("x-penstock-model") || ""];
    return parts.filter(Boolean).join(" · ");
  }

  function link(id) {
    const made = element("a", "", "this request");
    made.href = `/console/request?id=${encodeURIComponent(id)}`;
    return made;
  }

  // A form for the result of each call; when all are answered, the results go to the model together.
  function answering(calls) {
    const forms = calls.map((call) => {
      const form = element("form", "call");
      form.append(element("code", "", `${call.function.name}(${call.function.arguments})`));
      const box = form.appendChild(element("textarea"));
      box.setAttribute("aria-label", `The result of ${call.function.name}`);
      const button = form.appendChild(element("button", "", "Answer it"));
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        if (running || box.disabled) return;
        box.disabled = button.disabled = true;
        const boxes = forms.map((each) => each.querySelector("textarea"));
        if (!boxes.every((each) => each.disabled)) return;
        const results = calls.map((each, at) => ({ role: "tool", tool_call_id: each.id, content: boxes[at].value }));
        // They can be answered once more if the model did not take them.
        if (!await ask(results)) for (const each of forms) for (const part of each.elements) part.disabled = false;
      });
      return form;
    });
    return forms;
  }

  function note(text) { talk.appendChild(element("p", "problem", text)); }

  async function imageOf(file) {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(reader.error);
      reader.readAsDataURL(file);
    });
  }

  say.addEventListener("submit", async (event) => {
    event.preventDefault();
    const box = document.getElementById("text"), image = document.getElementById("image");
    const text = box.value.trim();
    if (running || (!text && !image.files.length)) return;
    const shown = element("div", "said you", text);
    let content = text;
    if (image.files.length) {
      const url = await imageOf(image.files[0]);
      content = [{ type: "text", text }, { type: "image_url", image_url: { url } }];
      const picture = shown.appendChild(element("img"));
      picture.src = url;
      picture.alt = image.files[0].name;
    }
    talk.appendChild(shown);
    box.value = "";
    const begun = session;
    const isAnswered = await ask([{ role: "user", content }]);
    // A new conversation has begun meanwhile.
    if (session !== begun) return;
    // What was not answered stands in the box again, unless the next message is there already.
    if (isAnswered) image.value = "";
    else { shown.classList.add("dropped"); box.value ||= text; }
  });
  document.getElementById("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) say.requestSubmit();
  });
  stop.addEventListener("click", () => running?.abort());
  document.getElementById("anew").addEventListener("click", () => {
    running?.abort();
    messages = []; unanswered = []; total = 0; turn = 0; session = crypto.randomUUID();
    talk.replaceChildren();
    document.getElementById("sum").textContent = "";
  });

  const copied = (id, write) => document.getElementById(id).addEventListener("click", async (event) => {
    try { await navigator.clipboard.writeText(write()); event.target.textContent = "Copied"; } catch (error) { note(error.message); }
  });
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  copied("curl", () => [`curl ${room.dataset.url}/v1/chat/completions -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json'`,
    ...Object.entries(labels()).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`), `-d ${quoted(JSON.stringify(body(unanswered)))}`].join(" \\\n  "));
  copied("python", () => `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${room.dataset.url}/v1", api_key=os.environ["KEY"])\n` +
    `asked = ${JSON.stringify(JSON.stringify(body(unanswered)))}\nimport json\nanswer = client.chat.completions.create(**json.loads(asked), extra_headers=${JSON.stringify(labels())})\nprint(answer)\n`);
  copied("case", () => {
    const form = new FormData(settings), asked = body(unanswered);
    delete asked.stream_options;
    return `[[case]]\nname = "from the playground"\nworkflow = ${JSON.stringify(form.get("workflow"))}\nbody = ${inline(asked)}\nexpect = { model = ${JSON.stringify(asked.model)} }\n`;
  });
  function inline(value) {
    if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
    if (value && typeof value === "object") return `{ ${Object.entries(value).filter(([, each]) => each != null).map(([name, each]) => `${JSON.stringify(name)} = ${inline(each)}`).join(", ")} }`;
    return JSON.stringify(value);
  }
}
