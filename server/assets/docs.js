/* Draws openapi.json. All of it goes into the page as text. */
"use strict";
(async () => {
const main = document.getElementById("main");

function add(to, name, text, className) {
    const element = document.createElement(name);
    if (text !== undefined)
        element.textContent = text;
    if (className)
        element.className = className;
    return to.appendChild(element);
}

const api = await (await fetch("openapi.json")).json();
const find = part => part?.$ref ? part.$ref.slice(2).split("/").reduce((at, key) => at[key], api)
                                : part;
const name_of = schema => schema.$ref?.split("/").pop();

/* "string or null", "list of Detected", "one of a, b" */
function type_of(schema) {
    if (schema.$ref)
        return name_of(schema);
    if (schema.enum)
        return "one of " + schema.enum.filter(v => v !== null && v !== "").join(", ");
    if ("const" in schema)
        return JSON.stringify(schema.const);
    if (schema.anyOf && !schema.properties)
        return schema.anyOf.map(type_of).filter(t => t !== "nothing").join(" or ");
    let types = [schema.type ?? "any"].flat().filter(t => t !== "null");
    if (schema.maxLength === 0)
        types = types.filter(t => t !== "string");
    if (schema.type === "array")
        return "list of " + (schema.items ? type_of(schema.items) : "anything") +
            (schema.maxItems ? ", at most " + schema.maxItems : "");
    const bounds = [["minimum", "from "], ["maximum", "to "]]
        .filter(([key]) => key in schema).map(([key, word]) => word + schema[key]);
    if (schema.maxLength)
        bounds.push("of at most " + schema.maxLength + " characters");
    if (schema.examples)
        bounds.push("as " + schema.examples.join(", "));
    return [types.join(" or ") || "nothing", ...bounds].join(" ");
}

function draw_fields(to, schema) {
    const fields = Object.entries(schema.properties ?? {});
    if (!fields.length)
        return;
    const table = add(to, "table"), head = add(table, "tr");
    for (const title of ["field", "type", ""])
        add(head, "th", title).scope = "col";
    for (const [name, field] of fields) {
        const row = add(table, "tr");
        add(add(row, "td"), "code", name + (schema.required?.includes(name) ? " *" : ""));
        add(row, "td", type_of(field));
        add(row, "td", find(field).description ?? "");
    }
}

function draw_content(to, title, content) {
    for (const [type, {schema}] of Object.entries(content ?? {})) {
        add(to, "h3", title + ": " + type);
        if (schema.$ref)
            add(to, "p", name_of(schema), "faint");
        draw_fields(to, find(schema));
        if (!find(schema).properties)
            add(to, "p", type_of(schema));
    }
}

function draw_call(to, path, verb, call) {
    const box = add(to, "details"), summary = add(box, "summary");
    add(summary, "span", verb.toUpperCase(), "verb");
    add(summary, "code", path);
    summary.append(" " + call.summary);
    const inside = add(box, "div", undefined, "inside");
    if (call.description)
        add(inside, "p", call.description);
    if (call.parameters) {
        add(inside, "h3", "In the address");
        draw_fields(inside, {properties: Object.fromEntries(call.parameters.map(
            p => [p.name, {...p.schema, description: p.description}])),
            required: call.parameters.filter(p => p.required).map(p => p.name)});
    }
    draw_content(inside, "Request", call.requestBody?.content);
    for (const [status, reply] of Object.entries(call.responses))
        draw_content(inside, status + ", " + find(reply).description, find(reply).content);
}

for (const {name, description} of api.tags) {
    add(main, "h2", name + ": " + description);
    for (const [path, verbs] of Object.entries(api.paths))
        for (const [verb, call] of Object.entries(verbs))
            if (call.tags.includes(name))
                draw_call(main, path, verb, call);
}
add(main, "h2", "What they are made of");
for (const [name, schema] of Object.entries(api.components.schemas)) {
    const box = add(main, "details");
    add(add(box, "summary"), "code", name);
    const inside = add(box, "div", undefined, "inside");
    if (schema.description)
        add(inside, "p", schema.description);
    draw_fields(inside, schema);
    if (!schema.properties)
        add(inside, "p", type_of(schema));
}
})();
