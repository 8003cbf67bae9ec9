internal import BrokerJSON
internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire

/// The fields by which an operation depends on the object that it names.
extension OperationFields {
    /// Reads `expect`; nil when it is missing.
    func expectation(
        _ action: JobOperation.Action, _ json: JSONValue
    ) throws(WireError) -> JobExpectation? {
        guard let value = fields["expect"] else { return nil }
        let place = "\(path)/expect"
        let namesOne =
            switch action {
            case .process(nil): json.kind == .object
            case .process, .relate: true
            case .delete: json.elements.reduce(0) { count, _ in count + 1 } == 1
            case .sync, .map, .deleteMatching: false
            }
        guard namesOne else {
            throw .unsupported(
                "`expect` is about one object: of a `process` whose `json` is one record, of a `relate`, or of a `delete` with "
                    + "one key. Send one operation for each object.", at: place)
        }
        switch value.kind {
        case .string where value.isText("absent"): return JobExpectation(.absent, json: value)
        case .string where value.isText("present"): return JobExpectation(.present, json: value)
        case .object: return JobExpectation(try condition(value, at: place), json: value)
        default:
            throw .unsupported(
                "`expect` is \"absent\", \"present\", or an object with `where` or `version`, not \(value.quotedBriefly).",
                at: place)
        }
    }

    private func condition(
        _ value: JSONValue, at place: String
    ) throws(WireError) -> JobExpectation.Condition {
        if let arguments = value["arguments"], arguments.kind != .array {
            throw arguments.mismatch("an array", at: "\(place)/arguments")
        }
        switch (try value.optionalString("where", in: place), value["version"]) {
        case (let predicate?, nil): return .matching(where: predicate, arguments: value["arguments"])
        case (nil, let version?):
            guard version.kind == .string else { throw version.mismatch("a string", at: "\(place)/version") }
            guard version.bytes.count == RowVersion.byteCount, let text = version.string else {
                throw .unsupported(
                    "A version is the \(RowVersion.byteCount) characters that a `fetch` with `versions` returned.",
                    at: "\(place)/version")
            }
            return .version(text)
        case (nil, nil), (_?, _?):
            throw .unsupported(
                "`expect` has either `where`, a predicate, or the `version` of the object.", at: place)
        }
    }

    var isAdjusted: Bool { fields["increment"] != nil || fields["append"] != nil }

    /// Reads `increment` and `append`; nil when both are missing.
    func adjustment(_ action: JobOperation.Action) throws(WireError) -> JobAdjustment? {
        guard isAdjusted else { return nil }
        for field in ["increment", "append"] {
            guard let value = fields[field] else { continue }
            guard case .process(_?) = action else {
                throw .unsupported(
                    "`\(field)` changes one object that exists: name it with `object` in a `process`.",
                    at: "\(path)/\(field)")
            }
            guard value.kind == .object else {
                throw value.mismatch("an object of attributes and what they change by", at: "\(path)/\(field)")
            }
        }
        return JobAdjustment(
            increment: fields["increment"], append: fields["append"], hasRecord: fields["json"] != nil)
    }

    /// Reads `links`; nil when it is missing.
    func links(_ action: JobOperation.Action) throws(WireError) -> LinkChange? {
        guard let value = fields["links"] else { return nil }
        guard case .relate = action else {
            throw .unsupported("`links` is of a `relate`.", at: "\(path)/links")
        }
        guard value.kind == .string else { throw value.mismatch("a string", at: "\(path)/links") }
        guard let change = LinkChange.allCases.first(where: { value.isText($0.rawValue) }) else {
            throw .unsupported(
                "A `relate` has no `links` \(value.quotedBriefly); the words are \(LinkChange.allCases.map(\.rawValue).listed).",
                at: "\(path)/links")
        }
        return change
    }
}

extension ShortList<JobOperation> {
    /// An operation that depends on an object is done or fails: skipped, it would be done again without what it depends on.
    func refuseSkipping() throws(WireError) {
        for operation in self {
            let field =
                operation.expectation != nil
                ? "expect"
                : operation.adjustment.map { $0.increment == nil ? "append" : "increment" }
                    ?? operation.links.map { _ in "links" }
            guard let field else { continue }
            throw .unsupported(
                "A job with `\(field)` fails as a whole or not at all: omit `\"onInvalid\": \"skip\"`.",
                at: "\(operation.pointer)/\(field)")
        }
    }
}
