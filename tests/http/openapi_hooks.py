"""Narrows the schemas to what the server of the tests takes, so that most requests are translated;
and what the fields of a request say of each other and JSON Schema does not is left out."""

import schemathesis

MODELS = {"en-de-token": ("en", "de", "token"), "en-fr-char": ("en", "fr", "char")}
FILE_NAME = {"type": "string", "pattern": r"^[a-z]{1,20}\.(txt|html|srt|vtt)$"}
NOTHING = {"enum": ["", None]}


def optional(*values):
    return {"enum": [*values, *NOTHING["enum"]]}


def pairs(source, target):
    """One of each model, in these fields."""
    return [{"required": [source, target],
             "properties": {source: {"enum": [its_source]}, target: {"enum": [its_target]}}}
            for its_source, its_target, _ in MODELS.values()]


def selections():
    """A pair, or a model, which tells the rest."""
    for name, (source, target, level) in MODELS.items():
        yield {"required": ["source", "target"],
               "properties": {"source": {"enum": [source]}, "target": {"enum": [target]},
                              "level": optional(level), "model": NOTHING}}
        yield {"required": ["model"],
               "properties": {"model": {"enum": [name]}, "source": optional(source, "auto"),
                              "target": optional(target), "level": optional(level)}}


def deepl_pairs():
    return [{"required": ["target_lang"],
             "properties": {"source_lang": optional(source), "target_lang": {"enum": [target]}}}
            for source, target, _ in MODELS.values()]


@schemathesis.hook
def before_load_schema(context, raw_schema):
    paths, schemas = raw_schema["paths"], raw_schema["components"]["schemas"]
    page = paths["/"]["post"]["requestBody"]["content"]["application/x-www-form-urlencoded"]
    for schema in (page["schema"], schemas["TranslateForm"], schemas["FileForm"]):
        schema["anyOf"] = pairs("source", "target")
    for name in ("TranslateRequest", "AttentionRequest"):
        schemas[name]["anyOf"] = list(selections())
    for name in ("DeepLRequest", "DeepLForm", "DeepLDocumentForm"):
        schemas[name]["anyOf"] = deepl_pairs()
    schemas["NamedRequest"]["properties"] |= dict.fromkeys(("source", "target", "level"), NOTHING)
    for name in ("FileForm", "DeepLDocumentForm"):  # parts have no names here
        schemas[name]["required"].append("filename")
        schemas[name]["properties"]["filename"] = FILE_NAME
    languages = {"source_lang": ["en", ""], "target_lang": ["de", "fr"]}
    for parameter in paths["/v2/translate"]["get"]["parameters"]:
        if parameter["name"] in languages:
            parameter["schema"] = {"enum": languages[parameter["name"]]}


def number(body, name):
    value = body.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


@schemathesis.hook
def filter_body(context, body):
    if not isinstance(body, dict):
        return True
    others = number(body, "alternatives")
    if number(body, "beam_size") and number(body, "beam_size") <= others:
        return False  # a search keeps at least as many hypotheses as it gives
    if others > 0 and body.get("stream"):
        return False  # alternatives are not streamed
    if body.get("format") == "html" and (body.get("sentences") or body.get("alignments")):
        return False  # of text alone
    return body.get("source") != "auto"  # of which a text may leave no idea
