// What a case shows when it is open; with report.js in one element, whose functions these use.

/** All of a case: what it was judged by on one side, answers and what was said of them on the other, a column a system. */
function caseBody(one) {
  const marks = new Map(); // the element that marks a quote
  const slice = slices.length > 1 ? [" · ", make("bdi", "", slices[one.slice])] : [];
  const which = make("h3", "which", make("bdi", "", one.id), ...slice);
  const body = make("div", "body", which, make("p", "asked text", one.question), references(one, marks));
  const there = [...new Set(one.rows.flatMap((row) => row.systems))];
  const shown = there.filter((system) => chosen.system === ANY || system === chosen.system);
  const grid = make("div", "systems");
  grid.style.setProperty("--shown", shown.length);
  for (const system of shown) {
    const row = one.rows.find((each) => each.systems.includes(system));
    const text = texts[row.answers[row.systems.indexOf(system)]];
    const answer = text.trim() ? make("div", "text answer long", text) : make("p", "note", "No answer.");
    grid.append(make("section", "", make("h3", "name", systems[system]), answer));
  }
  const trials = one.rows.some((row) => row.trial > 0);
  const asked = new Map(); // the rows of a metric and trial: one for all systems, or one for each
  for (const row of [...one.rows].sort((a, b) => a.metric - b.metric || a.trial - b.trial)) {
    const title = metrics[row.metric].name + (trials ? `, trial ${row.trial + 1}` : "");
    if (shown.some((system) => row.systems.includes(system))) asked.set(title, [...(asked.get(title) ?? []), row]);
  }
  for (const [title, rows] of asked) {
    grid.append(make("h4", "across", make("span", "name", title)));
    for (const system of shown) {
      const row = rows.find((each) => each.systems.includes(system));
      const cell = row ? verdicts(row, row.systems.indexOf(system), marks) : make("section");
      if (row?.systems.length === 1) cell.append(...replyAndCost(row));
      grid.append(cell);
    }
    for (const row of rows) if (row.systems.length > 1) grid.append(make("div", "across", ...replyAndCost(row)));
  }
  body.append(grid);
  return body;
}

/** What belongs to a row as a whole: the judge's reply, if it could not be read, and what the row cost. */
function replyAndCost(row) {
  const parts = [];
  if (row.reply !== null) {
    parts.push(make("p", "note", "The judge's reply, unchanged:"), make("div", "text reply long", row.reply));
  }
  if (row.cost) parts.push(make("p", "note", row.cost));
  return parts;
}

/** What a case was judged by, each text once, under what it is, with the quotes of all claims marked in it. */
function references(one, marks) {
  const shown = new Map(); // by name and text
  for (const row of one.rows) for (const source of row.sources) shown.set(source.join(), source);
  const side = make("div", "references");
  for (const [name, number] of shown.values()) {
    const has = (row) => row.sources.some(([other, text]) => other === name && text === number);
    const rows = one.rows.filter(has);
    const judgedBy = ({ metric, systems: of }) => {
      const own = one.rows.some((row) => row.metric === metric && !has(row)); // passages of each system
      return metrics[metric].name + (own ? ` of ${of.map((system) => systems[system]).join(", ")}` : "");
    };
    const box = texts[number].trim() ? make("div", "text reference", "") : make("p", "note", "None.");
    const quoting = rows.filter((row) => row.sources[0][1] === number);
    const quotes = quoting.flatMap((row) => row.claims.flat()).flatMap((claim) => claim?.quotes ?? []);
    mark(box, texts[number], quotes.filter((quote) => quote.at), marks);
    const title = name[0].toUpperCase() + name.slice(1);
    const of = shown.size > 1 ? ` for ${[...new Set(rows.map(judgedBy))].join(", ")}` : "";
    side.append(make("section", "", make("h3", "name", title + of), box));
  }
  return side;
}

/** Put a text into a box with its quotes marked; those that overlap or touch are one mark. */
function mark(box, text, quotes, marks) {
  let done = 0;
  let last = null;
  for (const quote of quotes.sort((a, b) => a.at[0] - b.at[0])) {
    const [start, end] = quote.at;
    if (last === null || start > done) {
      box.append(text.slice(done, start));
      last = make("mark", "", text.slice(start, end));
      box.append(last);
      done = end;
    } else if (end > done) {
      last.append(text.slice(done, end));
      done = end;
    }
    marks.set(quote, last);
  }
  box.append(text.slice(done));
}

/** What a row says of one answer. */
function verdicts(row, at, marks) {
  const [status, claims] = [row.statuses[at], row.claims[at]];
  const kind = status.startsWith("failed") ? "failed" : status;
  const line = make("p", "status", scoreOf({ value: row.scores[at], status, kind }, row.metric));
  if (status !== "ok") line.append(" ", status.replace(/^failed: /, ""));
  const section = make("section", "", line);
  if (claims) {
    const shown = chosen.unsupported ? claims.filter((claim) => !claim.supported) : claims;
    section.append(make("ol", "claims", ...shown.map((claim) => claimItem(claim, row.sources[0][0], marks))));
    const left = claims.length - shown.length;
    if (left) section.append(make("p", "note", `${left} supported claim${left > 1 ? "s" : ""} not shown`));
    if (!claims.length) section.append(make("p", "note", "No claims."));
  }
  const parts = madeOf(row.made_of?.[at]);
  const named = parts.flatMap(([name, text]) => [make("dt", "", name), make("dd", "text long", text)]);
  if (parts.length) section.append(make("dl", "made-of", ...named));
  return section;
}

/** What a score was made of, as its metric keeps it: names with texts. */
function madeOf(found) {
  if (found === null || typeof found !== "object") return [];
  return Object.entries(found).map(([name, value]) => [
    name,
    typeof value === "string" ? value : JSON.stringify(value, null, 1),
  ]);
}

function claimItem(claim, source, marks) {
  const verdict = claim.supported
    ? make("span", "verdict yes", "✓ supported")
    : make("span", "verdict no", "✗ not supported");
  const text = make("div", "text", claim.text);
  const item = make("li", claim.supported ? "claim" : "claim unsupported", verdict, text);
  for (const quote of claim.quotes) item.append(quoteBox(quote, source, marks));
  if (claim.analysis) item.append(make("div", "text note", claim.analysis));
  return item;
}

function quoteBox(quote, source, marks) {
  if (!quote.at) {
    const run = quote.share ? `, only ${Math.round(100 * quote.share)}% of its words in a row` : "";
    const said = quote.share === null ? "not checked: too long" : `≠ not in the ${source} word for word${run}`;
    return make("div", "quote absent", make("div", "text", quote.text), make("span", "note", said));
  }
  const box = make("button", "quote", quote.text);
  box.type = "button";
  box.title = `Show in the ${source}`;
  box.addEventListener("click", () => show(marks.get(quote)));
  return box;
}

/** Bring a mark into view, in its reference and on the screen. */
function show(found) {
  for (const old of list.querySelectorAll("mark.found")) old.classList.remove("found");
  found.classList.add("found");
  const box = found.closest(".reference");
  box.scrollTop = found.offsetTop - box.clientHeight / 3;
  found.scrollIntoView({ block: "nearest" });
}
