// The one script of all pages: makes the slider move, shows times in the reader's zone, takes one press for one.
"use strict";

document.documentElement.classList.add("scripted");

const slider = document.querySelector("[data-slider]");
if (slider) {
  const lists = Object.fromEntries(
    ["payments", "epsilons", "percents"].map((name) => [name, slider.dataset[name].split("|")]),
  );
  const range = slider.querySelector("input[type=range]");
  const place = (name) => document.querySelector(`[data-${name}]`);
  const show = () => {
    const line = Number(range.value);
    const percent = lists.percents[line];
    place("payment").textContent = lists.payments[line];
    place("percent").textContent = `${percent}%`;
    place("epsilon").textContent = place("epsilon").dataset.epsilon.replace("#", lists.epsilons[line]);
    place("words").textContent = place("words").dataset.words.replace("#", percent);
    range.setAttribute("aria-valuetext", `${lists.payments[line]}, ${percent}%`);
    place("bar").querySelector(".more").setAttribute("width", percent);
    place("bar").setAttribute("aria-label", place("words").textContent);
  };
  range.addEventListener("input", show);
  // A browser that comes back to the page may have moved the slider by itself.
  window.addEventListener("pageshow", show);
  show();
}

const language = document.documentElement.lang;
const locale = navigator.language.startsWith(language) ? navigator.language : language;
for (const time of document.querySelectorAll("time[datetime]")) {
  const options = { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  time.textContent = new Date(time.dateTime).toLocaleString(locale, options);
}

// A second press sends nothing; were it sent, the form's key would make it do nothing.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
  });
}
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// The form of a feature or a number shows what its kind needs; what is hidden is not sent.
for (const feature of document.querySelectorAll("[data-feature]")) {
  const kind = feature.querySelector("[data-kind]");
  const gap = feature.querySelector("[data-gap]");
  const fit = () => {
    for (const part of feature.querySelectorAll("[data-for], [data-for-gap]")) {
      const wanted = part.dataset.for ? part.dataset.for.split(" ").includes(kind.value) : part.dataset.forGap === gap.value;
      part.hidden = !wanted;
      for (const input of part.querySelectorAll("input")) input.disabled = !wanted;
    }
  };
  for (const choice of [kind, gap]) if (choice) choice.addEventListener("change", fit);
  window.addEventListener("pageshow", fit);
  fit();
}
