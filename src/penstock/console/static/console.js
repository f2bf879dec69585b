// Keys, the colour scheme, copying, and times in the reader's own zone. Pages work without it.
"use strict";

const root = document.documentElement;
const scheme = localStorage.getItem("scheme");
if (scheme) root.dataset.scheme = scheme;

function localTimes() {
  for (const time of document.querySelectorAll("time:not([title])")) {
    time.title = new Date(time.dateTime).toLocaleString();
  }
}

function nextScheme() {
  const order = ["", "light", "dark"];
  const next = order[(order.indexOf(root.dataset.scheme || "") + 1) % order.length];
  if (next) { root.dataset.scheme = next; localStorage.setItem("scheme", next); }
  else { delete root.dataset.scheme; localStorage.removeItem("scheme"); }
}

function moveRow(step) {
  const rows = [...document.querySelectorAll("main table.rows tbody tr")].filter((row) => !row.closest("details:not([open])"));
  if (!rows.length) return;
  const at = rows.findIndex((row) => "at" in row.dataset);
  const next = Math.min(rows.length - 1, Math.max(0, at + step));
  if (at >= 0) delete rows[at].dataset.at;
  rows[next].dataset.at = "";
  rows[next].scrollIntoView({ block: "nearest" });
}

let isGoing = false;
function onKey(event) {
  const isTyping = event.target.closest("input, select, textarea, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isGoing && /^[0-9]$/.test(event.key)) {
    const link = document.querySelector(`nav a[data-digit="${event.key}"]`);
    if (link) link.click();
  }
  isGoing = event.key === "g";
  if (event.key === "/") { event.preventDefault(); document.querySelector(".search input")?.focus(); }
  if (event.key === "j") moveRow(1);
  if (event.key === "k") moveRow(-1);
  if (event.key === "?") document.getElementById("keys")?.showModal();
  if (event.key === "Enter" && event.target === document.body) document.querySelector("tr[data-at] a")?.click();
}

document.addEventListener("keydown", onKey);
document.addEventListener("DOMContentLoaded", () => {
  localTimes();
  // Without a script the page has a meta element for it, which some readers could not stop.
  const retry = document.querySelector("[data-retry-seconds]")?.dataset.retrySeconds;
  if (retry) setTimeout(() => location.reload(), retry * 1000);
  document.getElementById("scheme")?.addEventListener("click", nextScheme);
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
});
document.addEventListener("htmx:after:swap", localTimes);
