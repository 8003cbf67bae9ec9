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

    package static func value(_ paths: [[String]], at place: SourcePlace = .unknown) -> ModelValue {
        func text(_ text: String) -> ModelValue { ModelValue(.string(text), at: place) }
        func array(_ values: [ModelValue]) -> ModelValue { ModelValue(.array(values), at: place) }
        func keys(_ path: [String]) -> ModelValue { array(path.map(text)) }
        guard paths.count == 1 else { return array(paths.map { path in dotted(path).map(text) ?? keys(path) }) }
        if paths[0].count == 1 { return keys(paths[0]) }
        return dotted(paths[0]).map(text) ?? array([keys(paths[0])])
    }

    static func write(_ paths: [[String]], to writer: inout JSONWriter) { value(paths).write(to: &writer) }
}
