// Suggests entities while one types. Everything works without it.
"use strict";
const field = document.getElementById("q");
const list = document.getElementById("suggested");
let waiting = 0;
async function suggest() {
  const text = field.value.trim();
  if (!text) return;
  const answer = await fetch("/v1/entities?q=" + encodeURIComponent(text));
  if (!answer.ok || field.value.trim() !== text) return;
  const found = await answer.json();
  list.replaceChildren(...found.entities.map((each) => {
    const option = document.createElement("option");
    option.value = each.label;
    return option;
  }));
}
field.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(suggest, 150);
});
