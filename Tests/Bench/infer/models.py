"""Whether a model is what a careful data modeller would choose."""
import re

from .fields import identities


def model_key(model, entity, name):
    """The JSON key of a property, which is its name unless the model has another."""
    described = model["entities"].get(entity, {})
    for kind in ("attributes", "relationships"):
        value = described.get(kind, {}).get(name)
        if isinstance(value, dict) and "key" in value:
            paths = value["key"] if isinstance(value["key"], list) else [value["key"]]
            return [".".join(path) if isinstance(path, list) else path for path in paths]
    return [name]


def identity_of(model, entity):
    identity = model["entities"].get(entity, {}).get("identity")
    return [] if identity is None else [identity] if isinstance(identity, str) else identity


def same_identity(model, entity, keys, own=()):
    """Whether these keys, of the JSON, are the entity's identity. The key in a map and a header without a name become an
    attribute that is none of the records' own keys."""
    names = identity_of(model, entity)

    def fits(name, key):
        found = {name, *model_key(model, entity, name)}
        return key in found or key.replace(".", "_") in found or key in ("@key", "") and name not in own

    return len(names) == len(keys) and all(any(fits(name, key) for key in keys) for name in names)


def identity_right(model, expected, own):
    entity = expected["entity"]
    if entity not in model.get("entities", {}):
        return False
    if expected.get("identity") is None:
        return not identity_of(model, entity)
    return any(same_identity(model, entity, keys, own) for keys in identities(expected))


def plain_name(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())


def model_points(model, expected):
    """How many of the expected entities, owned objects, columns and maps the model has, and what it lacks."""
    entities = model.get("entities", {})
    relationships = [(plain_name(key), value) for entity in entities
                     for name, value in entities[entity].get("relationships", {}).items()
                     for key in [model_key(model, entity, name)[0].split(".")[-1]] if isinstance(value, dict)]
    lacks = []
    count = 0
    for name, keys in expected.get("entities", {}).items():
        count += 1
        found = [entity for entity in entities if plain_name(entity).endswith(plain_name(name)) or
                 any(key == plain_name(name) and value.get("entity") == entity for key, value in relationships)]
        if not any(same_identity(model, entity, keys) for entity in found):
            lacks.append(f"{name} by {', '.join(keys)}")
    for path in expected.get("owned", []):
        count += 1
        key = plain_name(path.split(".")[-1])
        if not any(key in (name, name.removesuffix("s")) and value.get("owned") for name, value in relationships):
            lacks.append(f"{path} owned")
    for name in expected.get("columns", []):
        count += 1
        if any(key == plain_name(name) for key, _ in relationships):
            lacks.append(f"{name} as columns")
    for name in expected.get("maps", []):
        count += 1
        targets = {value.get("entity") for key, value in relationships if key == plain_name(name) and value.get("toMany")}
        if len(targets) != 1:
            lacks.append(f"{name} as a map")
    return count - len(lacks), count, lacks
