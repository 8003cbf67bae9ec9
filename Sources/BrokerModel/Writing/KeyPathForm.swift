internal import BrokerJSON

/// The key paths of a value in records, as a model's JSON says them.
///
/// A text is a path whose keys have dots between them. An array with one text is one key as it is. Any other array has the paths in
/// order of preference: texts, and arrays of the keys as they are.
package enum KeyPathForm {
    /// The path with dots between its keys; nil where that says another path.
    private static func dotted(_ path: [String]) -> String? {
        path.isEmpty || path.contains { $0.isEmpty || $0.utf8.contains(UInt8(ascii: ".")) }
            ? nil : path.joined(separator: ".")
    }

    /// - Parameter isShort: a key with a dot is the only text of its array; a stored model has it in an array of its own, because those of
    ///   earlier versions have paths with dots there (``ModelDocument/readingStoredPaths()``).
    package static func value(
        _ paths: [[String]], isShort: Bool = true, at place: SourcePlace = .unknown
    ) -> ModelValue {
        guard paths.count == 1 else { return list(paths, at: place) }
        // The only text of an array is a path where it begins with `@parent` or `@record`.
        let isPath = paths[0].count == 1 && HolderValue.isHolderPath(paths[0][0].split(separator: ".").map(String.init))
        let dotted = dotted(paths[0])
        if paths[0].count == 1, !isPath, isShort || dotted != nil { return ModelValue(paths[0], at: place) }
        return dotted.map { ModelValue(.string($0), at: place) } ?? list(paths, at: place)
    }

    /// A list of paths, in which a text is always a path with dots.
    package static func list(_ paths: [[String]], at place: SourcePlace = .unknown) -> ModelValue {
        let values = paths.map { path in
            dotted(path).map { ModelValue(.string($0), at: place) } ?? ModelValue(path, at: place)
        }
        return ModelValue(.array(values), at: place)
    }

    static func write(_ paths: [[String]], to writer: inout JSONWriter) {
        value(paths, isShort: false).write(to: &writer)
    }
}

extension ModelDocument {
    /// The document of a stored model. Earlier versions wrote each key path with dots as the only text of an array.
    package func readingStoredPaths() -> ModelDocument {
        var document = self
        for entity in root["entities"]?.members ?? [] {
            for kind in ["attributes", "relationships"] {
                for part in entity.value[kind]?.members ?? [] {
                    guard let texts = part.value["key"]?.elements, texts.count == 1, let text = texts[0].string,
                        text.contains(".")
                    else { continue }
                    document.root.set(
                        ["entities", entity.key, kind, part.key, "key"], ModelValue(.string(text), at: .unknown))
                }
            }
        }
        return document
    }
}
