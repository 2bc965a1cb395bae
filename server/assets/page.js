/* The page while one types: translate after a pause, show sentences as they come, draw over the
 * source what a word of the translation was made of. Everything that came over the network is put
 * into the page as text, never as markup. */
"use strict";
(() => {
const PAUSE_MS = 350, LONGEST_WAIT_S = 10, LONGEST_LINK = 1800, MOST_TOLD = 4, LEAST_TOLD = 0.02;
const MOST_ATTENDED = 500, MOST_ALIGNED = 8000; // characters that the server says this of
const MOST_STREAMED = 20000;                    // and that words are made for: each is an element
const $ = id => document.getElementById(id);
const form = $("form"), q = $("q"), source = $("source"), target = $("target"), level = $("level"),
      more = $("more"), // or null
      areas = $("areas"), result = $("result"), looked = $("looked"),
      alternatives = $("alternatives"), error = $("error"), state = $("state"),
      detected = $("detected");
const most = Number(q.dataset.most);
let models = null;        // what GET /models says
let can = {};             // what of the interface this server has
let running = null;       // AbortController of the last request; aborted if it may not be shown
let timer = 0;
let shown = null;         // {text, translation} that the words stand for, in the present languages

/* ---- What the server has ---- */

async function learn() {
    const [described, api] = await Promise.all([fetch("models"), fetch("openapi.json")]);
    models = (await described.json()).models;
    const document_ = await api.json();
    const fields = document_.components?.schemas?.TranslateRequest?.properties ?? {};
    can = {stream: "stream" in fields, alignments: "alignments" in fields,
           attention: "/attention" in (document_.paths ?? {})};
}

const named = select => select.selectedOptions[0]?.textContent ?? select.value;

/* Models of many languages do not translate one to itself. */
function translates(model, from, to) {
    const is_new = language => language !== to || model.targets.length === 1;
    return model.targets.includes(to) &&
        (from === "auto" ? model.sources.some(is_new)
                         : model.sources.includes(from) && is_new(from));
}

/* Which choices the models leave: what cannot be had is not offered. */
function offer() {
    if (!models)
        return;
    for (const option of target.options)
        option.disabled = !models.some(m => translates(m, source.value, option.value));
    if (target.selectedOptions[0]?.disabled)
        target.value = [...target.options].find(o => !o.disabled)?.value ?? "";
    for (const option of level.options)
        option.disabled = !models.some(m => m.level === option.value &&
                                            translates(m, source.value, target.value));
    if (level.selectedOptions[0]?.disabled)
        level.value = [...level.options].find(o => !o.disabled)?.value ?? "";
    $("swap").hidden = source.value === "auto" ||
        !models.some(m => translates(m, target.value, source.value));
}

/* ---- The source ---- */

function grow() {
    q.style.setProperty("height", "auto");
    q.style.setProperty("height", q.scrollHeight + "px");
}

function tell_count() {
    const n = [...q.value].length;
    $("count").textContent = n + " of " + most + " characters";
    $("count").classList.toggle("error", n > most);
    $("clear").hidden = !q.value;
    return n <= most;
}

/* The address says what is on the page, so that it can be sent to others. */
function write_address() {
    const link = new URLSearchParams({source: source.value, target: target.value});
    if (level.value !== "token")
        link.set("level", level.value);
    if (q.value)
        link.set("q", q.value);
    const text = "?" + link;
    history.replaceState(null, "", text.length <= LONGEST_LINK ? text : location.pathname);
}

/* ---- What a word was made of ---- */

function draw(ranges) {
    const text = q.value, marks = [];
    let at = 0;
    for (const {first, end, weight, is_most} of ranges) {
        const mark = document.createElement("mark");
        mark.textContent = text.slice(first, end);
        mark.style.setProperty("--weight", String(0.1 + 0.5 * weight));
        mark.classList.toggle("most", is_most);
        mark.classList.toggle("joined", first === at && marks.length > 0);
        marks.push(text.slice(at, first), mark);
        at = end;
    }
    areas.replaceChildren(...marks, text.slice(at) + "\n");
}

function forget_areas() {
    areas.replaceChildren();
    looked.textContent = "";
    for (const word of result.querySelectorAll(".on"))
        word.classList.remove("on");
}

/* Ranges that do not overlap, from areas that may; the heaviest area is marked in them. */
function add_up(list) {
    const ends = [...new Set(list.flatMap(a => [a[0], a[1]]))].sort((a, b) => a - b);
    const most = list.reduce((best, a) => a[2] > best[2] ? a : best);
    const parts = [];
    for (let i = 0; i + 1 < ends.length; i++) {
        const [first, end] = [ends[i], ends[i + 1]];
        const over = list.filter(a => a[0] <= first && a[1] >= end);
        const weight = Math.min(1, over.reduce((sum, a) => sum + a[2], 0));
        if (weight > 0)
            parts.push({first, end, weight, is_most: most[0] <= first && most[1] >= end});
    }
    return parts;
}

function look(word) {
    const text = q.value;
    if (!shown || shown.text !== text || !word.areas)
        return;
    forget_areas();
    word.classList.add("on");
    if (!word.areas.length) {
        looked.textContent = "“" + word.textContent + "” has no source words";
        return;
    }
    draw(add_up(word.areas));
    const list = word.areas.filter(a => a[2] >= LEAST_TOLD)
        .sort((a, b) => b[2] - a[2] || a[0] - b[0]).slice(0, MOST_TOLD);
    looked.textContent = "“" + word.textContent + "” looked at " + list.map(a =>
        "“" + text.slice(a[0], a[1]).trim() + "”" +
        (a[2] < 0.995 ? " " + Math.round(100 * a[2]) + " %" : "")).join(", ");
}

/* ---- The translation ---- */

/* Browsers without a segmenter (Firefox before 125) have words between white space. */
const letters = Intl.Segmenter ? new Intl.Segmenter(undefined, {granularity: "word"}) : {
    segment: text => Array.from(text.matchAll(/\s+|\S+/g), ({0: segment, index}) =>
        ({segment, index, isWordLike: true}))};

/* Words, each one its own element, of which one can be reached by Tab and the others by arrows. All
 * are in one, as a place whose direction is looked for takes time by the square of what it gets. */
function words_of(text, areas_of) {
    const words = document.createElement("span");
    let is_first = true;
    for (const {segment, index, isWordLike} of letters.segment(text)) {
        const found = areas_of(index, index + segment.length);
        if (!segment.trim() || (!isWordLike && !found.length)) {
            words.append(segment);
            continue;
        }
        const word = document.createElement("span");
        word.className = "word";
        word.textContent = segment;
        word.place = [index, index + segment.length];
        word.areas = found;
        word.tabIndex = is_first ? 0 : -1;
        is_first = false;
        words.append(word);
    }
    return words;
}

function step(event) {
    const words = [...result.querySelectorAll(".word[tabindex]")];
    const at = words.indexOf(event.target);
    const right = getComputedStyle(result).direction === "rtl" ? -1 : 1;
    const to = {ArrowRight: at + right, ArrowLeft: at - right, ArrowDown: at + 1, ArrowUp: at - 1,
                Home: 0, End: words.length - 1}[event.key];
    if (at < 0 || to === undefined || !words[to])
        return;
    event.preventDefault();
    words[at].tabIndex = -1;
    words[to].tabIndex = 0;
    words[to].focus();
}

/* The reply to what request_of() made; the text in the field may be another one by now. */
function show(reply, body) {
    const text = reply.translatedText ?? "", areas_at = areas_in(reply, body.q, text);
    shown = {text: body.q, translation: text};
    result.replaceChildren(areas_at ? words_of(text, areas_at) : text);
    result.lang = body.target;
    result.classList.remove("stale");
    alternatives.replaceChildren(...(reply.alternatives ?? []).map(other => {
        const item = document.createElement("li");
        item.dir = "auto";
        item.lang = body.target;
        item.textContent = other;
        return item;
    }));
    const found = reply.detectedLanguage;
    detected.textContent = !found ? "" : "from " +
        ([...source.options].find(o => o.value === found.language)?.textContent ?? found.language) +
        (found.confidence ? ", " + found.confidence + " % sure" : "");
    $("copy").hidden = !text;
}

/* Ranges of replies count the bytes of UTF-8, those of this page units of UTF-16: one for each
 * byte's place, and one for the end. */
function places_in(text) {
    const places = [];
    let at = 0;
    for (const letter of text) {
        const code = letter.codePointAt(0), n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        for (let i = 0; i < n; i++)
            places.push(at);
        at += letter.length;
    }
    places.push(at);
    return places;
}

/* A function from a range of the translation to the areas [first, end, weight] of the source that
 * its tokens {first, end, areas} looked at. It takes ranges in their order. */
function areas_of(tokens) {
    let next = 0;
    tokens.sort((a, b) => a.first - b.first || a.end - b.end);
    return (first, end) => {
        const own = [], areas = new Map();
        while (tokens[next]?.end <= first)
            next++;
        for (let t = next; tokens[t]?.first < end; t++)
            if (tokens[t].areas.length)
                own.push(tokens[t]);
        for (const [a, b, weight] of own.flatMap(t => t.areas)) {
            const key = a + "-" + b, so_far = areas.get(key)?.[2] ?? 0;
            areas.set(key, [a, b, so_far + weight / own.length]);
        }
        return [...areas.values()];
    };
}

/* The one source token that each looked at most; null if the reply does not say. */
function areas_in(reply, from, to) {
    const list = reply.alignments?.[0];
    if (!list)
        return null;
    const of_source = places_in(from), of_target = places_in(to);
    return areas_of(list.map(({source: s, target: t}) => ({
        first: of_target[t[0]], end: of_target[t[1]],
        areas: s[0] < s[1] ? [[of_source[s[0]], of_source[s[1]], 1]] : []})));
}

/* All areas, of all layers and heads alike. End tokens stand nowhere. */
function areas_attended(sentences, from, to) {
    const of_source = places_in(from), of_target = places_in(to), tokens = [];
    for (const {layers, source_ranges, target_ranges} of sentences) {
        const heads = layers.flatMap(layer => layer.heads);
        target_ranges.forEach(([first, end], t) => {
            const areas = heads.flatMap(head => head.tokens[t]).flatMap(area => {
                const there = source_ranges.slice(area.first, area.first + area.width)
                    .filter(([a, b]) => a < b);
                return there.length ? [[of_source[there[0][0]], of_source[there.at(-1)[1]],
                                        area.weight / heads.length]] : [];
            });
            tokens.push({first: of_target[first], end: of_target[end], areas});
        });
    }
    return areas_of(tokens);
}

/* Asks for them when somebody first wants to know. What cannot be had changes nothing; a text with
 * placeholders was translated without them, and is another translation. */
async function attend() {
    const own = shown;
    if (!can.attention || !own || own.is_attended || own.text !== q.value ||
        [...own.text].length > MOST_ATTENDED)
        return;
    own.is_attended = true;
    const reply = await post("attention", {text: own.text, source: source.value,
                                           target: target.value, level: level.value});
    const {attention, translatedText} = await reply.json();
    if (shown !== own || translatedText !== own.translation)
        return;
    const found = areas_attended(attention, own.text, translatedText);
    for (const word of result.querySelectorAll(".word"))
        word.areas = found(...word.place);
    const word = result.querySelector(".word.on");
    if (word)
        look(word);
}

function make_room() {
    shown = null;
    forget_areas();
    result.replaceChildren();
    alternatives.replaceChildren();
    detected.textContent = "";
}

function clear() {
    running?.abort();
    make_room();
    error.textContent = state.textContent = "";
    result.classList.remove("stale");
    $("copy").hidden = true;
}

/* ---- Asking ---- */

function request_of() {
    const body = {q: q.value, source: source.value, target: target.value, level: level.value};
    if (more?.checked)
        body.alternatives = Number(more.value);
    if (can.stream && !body.alternatives && body.source !== "auto")
        body.stream = true;
    if (can.alignments && q.value.length <= (body.stream ? MOST_STREAMED : MOST_ALIGNED))
        body.alignments = true;
    return body;
}

async function post(path, body, signal) {
    if ($("key")?.value)
        body.api_key = $("key").value;
    const reply = await fetch(path, {
        method: "POST", signal, body: JSON.stringify(body),
        headers: {"Content-Type": "application/json"}});
    if (reply.ok)
        return reply;
    let text = reply.status + " " + reply.statusText;
    try {
        text = (await reply.json()).error || text;
    } catch { /* a proxy's page: its status says enough */ }
    const failure = new Error(text);
    if (reply.status === 429 || reply.status === 503)
        failure.wait_s = Math.max(1, parseInt(reply.headers.get("Retry-After"))); // or NaN
    throw failure;
}

/* Shows the beginning while the rest is still being translated: as text, as words are for whoever
 * wants to know where they come from, which only the end tells. */
async function stream(body, signal) {
    const reply = await post("translate", body, signal);
    const lines = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    const alignments = [];
    let rest = "", text = "";
    for (let piece; !(piece = await lines.read()).done;) {
        signal.throwIfAborted();
        const whole = (rest + piece.value).split("\n");
        rest = whole.pop();
        for (const line of whole.filter(l => l)) {
            const part = JSON.parse(line);
            if (part.error)
                throw new Error(part.error.error ?? part.error);
            if (part.done)
                return {translatedText: text, alignments: body.alignments && [alignments]};
            alignments.push(...part.alignments ?? []);
            const sentence = (part.before ?? "") + part.translatedText + (part.after ?? "");
            if (!text) {
                make_room();
                result.lang = body.target;
            }
            result.append(sentence);
            text += sentence;
        }
    }
    throw new Error("The server broke off.");
}

/* What a stream leaves out (alternatives, the language found) takes a whole reply. */
async function ask(body, signal) {
    return body.stream ? stream(body, signal) : (await post("translate", body, signal)).json();
}

/* What is there stays, dimmed. A server that has no time now is asked again, unless somebody writes
 * before that. */
function tell(failure, body) {
    error.textContent = failure instanceof TypeError ? "The server cannot be reached."
                                                     : failure.message;
    state.textContent = "";
    if (failure.wait_s <= LONGEST_WAIT_S && body.q === q.value) {
        state.textContent = "Trying again in " + failure.wait_s + " s";
        timer = setTimeout(translate, 1000 * failure.wait_s);
    }
}

async function translate() {
    clearTimeout(timer);
    write_address();
    if (!tell_count() || !q.value.trim()) {
        clear();
        if (q.value.trim())
            error.textContent = "This server takes at most " + most + " characters at a time.";
        return;
    }
    running?.abort();
    const body = request_of(), own = running = new AbortController(), begun = performance.now();
    shown = null;
    forget_areas();
    error.textContent = "";
    state.textContent = "Translating …";
    result.classList.add("stale");
    try {
        const reply = await ask(body, own.signal);
        own.signal.throwIfAborted();
        show(reply, body);
        state.textContent = "in " + Math.round(performance.now() - begun) + " ms";
    } catch (failure) {
        if (!own.signal.aborted)
            tell(failure, body);
    }
}

function later() {
    clearTimeout(timer);
    forget_areas();
    tell_count();
    grow();
    timer = setTimeout(translate, PAUSE_MS);
}

/* ---- Who does what ---- */

form.addEventListener("submit", event => {
    event.preventDefault();
    translate();
});
q.addEventListener("input", later);
q.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
        translate();
});
for (const choice of [source, target, level, more])
    choice?.addEventListener("change", () => {
        offer();
        translate();
    });
$("swap").addEventListener("click", () => {
    const text = shown?.text === q.value ? shown.translation : "", from = source.value;
    source.value = target.value;
    offer();
    target.value = from;
    offer();
    q.value = text || q.value;
    grow();
    translate();
});
$("clear").addEventListener("click", () => {
    q.value = "";
    grow();
    translate();
    q.focus();
});
$("copy").addEventListener("click", async () => {
    try {
        await navigator.clipboard.writeText(result.textContent);
        state.textContent = "Copied";
    } catch {
        getSelection().selectAllChildren(result);
        state.textContent = "Selected; copy with Ctrl+C";
    }
});
result.addEventListener("pointerover", event => {
    look(event.target);
    attend().catch(() => {});
});
result.addEventListener("pointerleave", () => {
    if (!result.contains(document.activeElement))
        forget_areas();
});
result.addEventListener("focusin", event => {
    look(event.target);
    attend().catch(() => {});
});
result.addEventListener("focusout", forget_areas);
result.addEventListener("keydown", step);
addEventListener("resize", grow);

document.documentElement.classList.add("script");
q.required = false;
tell_count();
grow();
learn().catch(() => {}).then(() => {
    offer();
    if (q.value.trim() && !alternatives.childElementCount)
        translate();
});
})();
