"use strict";
// The cases of the page: their filters, and a list of which only what is near the screen is in the document. What a
// case shows when it is open: case.js, in the same element. Texts of the data become text nodes, never HTML.

const ANY = -1; // in place of the number of a system or slice
const LEVELS = 5; // colours of scores
const MOST_COLUMNS = 6; // systems beside each other in the list
const MARGIN = 12; // rows of the list above and below the screen
const PRINTED = 100; // cases at most
const SHORT = 300; // characters of a text where there is a line for it

const find = (id) => document.getElementById(id);
const data = JSON.parse(find("data").textContent);
find("data").remove();
const { metrics, systems, slices } = data;
const texts = [];

/** An element with children: elements, or strings, which become text. */
function make(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// ---- cases

/** The cases, each with its rows, in the file's order. One id may have several questions, each of another system. */
function readCases() {
  const found = new Map();
  for (const row of data.rows) {
    for (const text of row.new) texts.push(text);
    const question = texts[row.question];
    const key = JSON.stringify([row.case, question.trim().split(/\s+/)]);
    if (!found.has(key)) found.set(key, { id: row.case, question, slice: row.slice, rows: [] });
    found.get(key).rows.push(row);
  }
  return [...found.values()];
}

const cases = readCases();

/** What a metric says of a system's answer, over all trials; null if it was not asked. */
function judge(one, metric, system) {
  const found = { system, value: null, status: null, kind: "", claims: 0, unsupported: 0 };
  let sum = 0;
  let scored = 0;
  for (const row of one.rows) {
    const at = row.metric === metric ? row.systems.indexOf(system) : -1;
    if (at < 0) continue;
    if (found.status === null || (row.scores[at] !== null && !scored)) found.status = row.statuses[at];
    if (row.scores[at] !== null) {
      sum += row.scores[at];
      scored += 1;
    }
    for (const claim of row.claims[at] ?? []) {
      found.claims += 1;
      found.unsupported += !claim.supported;
    }
  }
  if (found.status === null) return null;
  if (scored) found.value = sum / scored;
  found.kind = found.status.startsWith("failed") ? "failed" : found.status;
  return found;
}

/** A text as it is searched: in lower case, and with letters such as é as one character. */
const plain = (text) => text.normalize("NFC").toLowerCase();

/** All texts of a case as they are searched; made when the case is first searched. */
function searched(one) {
  if (one.searched === undefined) {
    const numbers = new Set(one.rows.flatMap((row) => [row.question, ...row.sources.map(([, text]) => text), ...row.answers]));
    const parts = [one.id, slices[one.slice], ...[...numbers].map((number) => texts[number])];
    for (const row of one.rows) {
      parts.push(...row.statuses, row.reply ?? "", ...(row.made_of ?? []).flatMap(madeOf).flat());
      for (const claim of row.claims.flatMap((claims) => claims ?? [])) {
        parts.push(claim.text, claim.analysis, ...claim.quotes.map((quote) => quote.text));
      }
    }
    one.searched = plain(parts.join("\n"));
  }
  return one.searched;
}

// ---- filters

const filters = find("filters").elements;
const chosen = {}; // what the filters say

function fill(select, options) {
  select.replaceChildren(...options.map(([name, value]) => new Option(name.slice(0, SHORT), value)));
}

const shownSystems = () => (chosen.system === ANY ? systems.map((_, at) => at) : [chosen.system]);
const judgements = (one) => shownSystems().map((system) => judge(one, chosen.metric, system));

/** Offer the statuses that the chosen metric gave, with the number of cases of each. */
function fillStatuses() {
  const counts = new Map();
  for (const one of cases) {
    const kinds = new Set(judgements(one).filter(Boolean).map(({ kind }) => kind));
    for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const kinds = [...counts].sort((a, b) => b[1] - a[1]);
  fill(filters.status, [["any status", ""], ...kinds.map(([kind, count]) => [`${kind} (${count})`, kind])]);
  if (!counts.has(chosen.status)) chosen.status = "";
  filters.status.value = chosen.status;
}

function readFilters() {
  for (const name of ["metric", "system", "slice"]) chosen[name] = Number(filters[name].value);
  for (const name of ["status", "order"]) chosen[name] = filters[name].value;
  chosen.unsupported = filters.unsupported.checked;
  chosen.words = plain(filters.search.value).split(/\s+/).filter(Boolean);
}

/** The lines of the list: cases that the filters leave, in the order asked for, those without a score at the end. */
function filtered() {
  const lines = [];
  const better = metrics[chosen.metric].lower_is_better ? -1 : 1;
  const sign = chosen.order === "best" ? -better : better;
  for (const one of cases) {
    if (chosen.slice !== ANY && !one.rows.some((row) => row.slice === chosen.slice)) continue;
    const found = judgements(one);
    const there = found.filter(Boolean);
    const unsupported = there.reduce((sum, { unsupported }) => sum + unsupported, 0);
    if (chosen.system !== ANY && !there.length) continue;
    if (chosen.status && !there.some(({ kind }) => kind === chosen.status)) continue;
    if (chosen.unsupported && !unsupported) continue;
    if (!chosen.words.every((word) => searched(one).includes(word))) continue;
    const values = there.filter(({ value }) => value !== null).map(({ value }) => sign * value);
    lines.push({ one, found, unsupported, key: values.length ? Math.min(...values) : Infinity });
  }
  const byKey = (a, b) => (a.key === b.key ? 0 : a.key - b.key); // Infinity − Infinity is no number
  if (chosen.order !== "file") lines.sort((a, b) => byKey(a, b) || b.unsupported - a.unsupported);
  return lines;
}

// ---- the list

const list = find("list");
const bar = find("bar");
const items = new Map(); // elements of the list by place, those near the screen
let lines = [];
let current = -1; // the place that the keys are at
let opened = -1; // the place of the case that is open
let rowHeight = 0; // in pixels, as report.css has it
let bodyHeight = 0; // of the open case

const heightAbove = (at) => at * rowHeight + (opened >= 0 && at > opened ? bodyHeight : 0);
const onScreen = (at) => list.getBoundingClientRect().top + heightAbove(at);
const barHeight = () => (getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0); // where it stays on top

/** The place that stands at a height of the list. */
function placeAt(height) {
  if (opened < 0 || height < (opened + 1) * rowHeight) return Math.floor(height / rowHeight);
  return Math.max(opened, Math.floor((height - bodyHeight) / rowHeight));
}

/** Bring what is near the screen into the document, and take out what is not, but for the open case. */
function render() {
  const start = -list.getBoundingClientRect().top;
  const from = Math.max(0, placeAt(start) - MARGIN);
  const to = Math.min(lines.length, placeAt(start + window.innerHeight) + 1 + MARGIN);
  const wanted = new Set(opened >= 0 ? [opened] : []);
  for (let at = from; at < to; at += 1) wanted.add(at);
  for (const [at, item] of items) {
    if (!wanted.has(at)) {
      item.remove();
      items.delete(at);
    }
  }
  list.style.height = `${heightAbove(lines.length)}px`;
  let next = list.firstElementChild;
  for (const at of [...wanted].sort((a, b) => a - b)) {
    if (!items.has(at)) items.set(at, listItem(at));
    const item = items.get(at);
    if (item === next) next = next.nextElementSibling;
    else list.insertBefore(item, next); // what is there already never moves: it would lose focus and scroll
    item.style.top = `${heightAbove(at)}px`;
    item.classList.toggle("current", at === current);
  }
}

function listItem(at) {
  const { one, found, unsupported } = lines[at];
  const claims = found.reduce((sum, each) => sum + (each?.claims ?? 0), 0);
  const doubt = make("span", "doubt", unsupported ? `✗ ${unsupported} of ${claims}` : "");
  if (unsupported) doubt.ariaLabel = `${unsupported} of ${claims} claims unsupported`;
  const button = make(
    "button",
    "row",
    make("span", "id", one.id.slice(0, SHORT)),
    make("span", "question", one.question.slice(0, SHORT)),
    make("span", "slice", slices[one.slice].slice(0, SHORT)),
    doubt,
    ...columns(found).map((each) => scoreOf(each, chosen.metric)),
  );
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", ({ detail }) => {
    current = at;
    openCase(at === opened ? -1 : at);
    if (!detail) go(at); // by a key
  });
  const item = make("li", "case", button);
  item.setAttribute("aria-setsize", lines.length);
  item.setAttribute("aria-posinset", at + 1);
  return item;
}

/** What the list shows of judgements by system: all, or the worst alone where they are too many. */
function columns(found) {
  if (found.length <= MOST_COLUMNS) return found;
  const sign = metrics[chosen.metric].lower_is_better ? -1 : 1;
  const key = (each) => (each.value === null ? Infinity : sign * each.value);
  return [found.filter(Boolean).sort((a, b) => (key(a) < key(b) ? -1 : 1))[0] ?? null];
}

/** A score as a number, with a bar as long as it is high. */
function scoreOf(found, metric) {
  if (!found) return make("span", "");
  const score = make("span", "score", found.value === null ? found.kind.slice(0, 10) : found.value.toFixed(2));
  score.title = found.status.slice(0, SHORT);
  if (found.system !== undefined) {
    const system = systems[found.system].slice(0, SHORT);
    score.title = `${system}: ${score.title}`;
    score.ariaLabel = `${system}: ${score.textContent}`; // its column has no head that a screen reader reads
  }
  if (found.value === null) {
    score.classList.add("without");
  } else {
    const { low, high, lower_is_better } = metrics[metric];
    const share = (found.value - low) / (high - low);
    const level = Math.floor((lower_is_better ? 1 - share : share) * LEVELS);
    score.classList.add(`level-${Math.min(LEVELS - 1, level)}`);
    score.style.setProperty("--share", `${100 * share}%`);
  }
  return score;
}

const bodySize = new ResizeObserver(([{ target }]) => {
  bodyHeight = target.offsetHeight;
  render();
});

/** Open the case at a place and close the one that is open; −1 only closes. */
function openCase(at) {
  const closed = items.get(opened);
  if (closed) {
    bodySize.disconnect();
    closed.lastElementChild.remove();
    closed.classList.remove("open");
    closed.firstElementChild.setAttribute("aria-expanded", "false");
  }
  const still = at < 0 ? opened : at; // stays where it is on the screen
  const before = still < 0 ? 0 : onScreen(still);
  opened = at;
  bodyHeight = 0;
  if (at >= 0) {
    render();
    const item = items.get(at);
    const body = caseBody(lines[at].one);
    item.append(body);
    item.classList.add("open");
    item.firstElementChild.setAttribute("aria-expanded", "true");
    bodyHeight = body.offsetHeight;
    bodySize.observe(body);
  }
  render();
  if (still >= 0) window.scrollBy(0, onScreen(still) - before);
}

/** Go to a place with the keys; if a case is open, the one gone to opens for it. */
function go(at) {
  if (!lines.length) return;
  current = Math.min(Math.max(at, 0), lines.length - 1);
  if (opened >= 0 && opened !== current) openCase(current);
  const [top, above] = [onScreen(current), barHeight()];
  const below = top + rowHeight - window.innerHeight;
  if (top < above || opened >= 0) window.scrollBy(0, top - above);
  else if (below > 0) window.scrollBy(0, Math.ceil(below));
  render();
  items.get(current).firstElementChild.focus({ preventScroll: true });
}

/** Make the list anew; a case that is open stays so if it is still there. */
function update() {
  const [wasOpen, wasCurrent] = [lines[opened]?.one, lines[current]?.one];
  openCase(-1);
  readFilters();
  fillStatuses();
  lines = filtered();
  items.clear();
  list.replaceChildren();
  const placeOf = (one) => (one ? lines.findIndex((line) => line.one === one) : -1);
  current = placeOf(wasCurrent);
  const names = shownSystems().map((system) => systems[system]);
  const shown = names.length > MOST_COLUMNS ? ["worst"] : names;
  document.documentElement.style.setProperty("--systems", shown.length);
  const head = [["id", "id"], ["question", "question"], ["slice", "slice"], ["doubt", "unsupported"]];
  const titles = head.map(([className, name]) => make("span", className, name));
  find("head").replaceChildren(...titles, ...shown.map((name) => make("span", "score-name", name.slice(0, SHORT))));
  const [some, all] = [lines.length, cases.length].map((count) => count.toLocaleString("en"));
  find("count").textContent = `${some === all ? all : `${some} of ${all}`} case${cases.length === 1 ? "" : "s"}`;
  find("nothing").hidden = lines.length > 0;
  if (list.getBoundingClientRect().top < 0) find("cases").scrollIntoView();
  render();
  if (placeOf(wasOpen) >= 0) openCase(placeOf(wasOpen));
}

// ---- keys, and what else happens

const KEYS = {
  "/": () => filters.search.select(),
  "?": () => find("help").showModal(),
  j: () => go(current + 1),
  k: () => go(current - 1),
  Enter: () => current >= 0 && openCase(current === opened ? -1 : current),
  Escape: () => openCase(-1),
};

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || find("help").open || !(key in KEYS)) return;
  if (target === filters.search && (key === "Escape" || key === "Enter")) {
    event.preventDefault();
    target.blur();
    if (key === "Enter") go(0);
    return;
  }
  if (target.matches("input[type=search], select")) return;
  if (key === "Enter" && target.matches("button, input, summary")) return;
  event.preventDefault();
  KEYS[key]();
});

let waiting = 0;
filters.search.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(update, 120);
});
find("filters").addEventListener("change", update);
find("filters").addEventListener("submit", (event) => event.preventDefault());
find("help-button").addEventListener("click", () => find("help").showModal());
for (const button of document.querySelectorAll("[data-slice]")) {
  button.addEventListener("click", () => {
    filters.slice.value = button.dataset.slice;
    update();
    find("cases").scrollIntoView();
  });
}

const barSize = new ResizeObserver(() => {
  document.documentElement.style.setProperty("--bar", `${barHeight()}px`);
  render();
});

window.addEventListener("scroll", render, { passive: true });
window.addEventListener("resize", render);
window.addEventListener("beforeprint", () => {
  const shown = lines.slice(0, PRINTED);
  const rest = lines.length - shown.length;
  find("printed").replaceChildren(
    ...shown.map(({ one }) => make("article", "case", caseBody(one))),
    ...(rest ? [make("p", "note", `${rest.toLocaleString("en")} more cases are not printed.`)] : []),
  );
});
window.addEventListener("afterprint", () => find("printed").replaceChildren());

const numbered = (names) => names.map((name, at) => [name, at]);
fill(filters.metric, numbered(metrics.map(({ name }) => name)));
fill(filters.system, [["any system", ANY], ...numbered(systems)]);
fill(filters.slice, [["any slice", ANY], ...numbered(slices)]);
for (const [select, names] of [[filters.metric, metrics], [filters.system, systems], [filters.slice, slices]]) {
  select.hidden = names.length < 2;
}
find("cases").classList.toggle("no-slices", slices.length < 2);
rowHeight = 2.25 * parseFloat(getComputedStyle(document.documentElement).fontSize);
update();
barSize.observe(bar);
