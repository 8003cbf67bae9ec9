package import BrokerJSON
package import BrokerModel

/// Chooses the mappings for a whole payload, by name or by the model's routes. One router serves the operations of one
/// job.
package struct PayloadRouter {
    /// The routes that fit a path.
    private struct Fitting {
        let path: [UInt8]?
        let parts: RouteTree
        let errors: RouteTree
        /// An error route without a key path fits: the payload is an error.
        let isError: Bool
        /// The first route without a key path.
        let whole: RouteTree.Target?
    }

    private let model: Model
    private let document: JSONDocument
    private let allowance: (any StagingAllowance)?
    /// The routes for the path of the latest operation; operations of one job mostly share a path.
    private var fitting: Fitting?

    /// - Parameters:
    ///   - document: the document of the payloads.
    ///   - allowance: asked for the memory of the routes that fit a path; nil grants all.
    package init(_ model: Model, in document: JSONDocument, _ allowance: (any StagingAllowance)? = nil) {
        self.model = model
        self.document = document
        self.allowance = allowance
    }

    /// Returns the operation that reads a payload by a mapping.
    ///
    /// - Throws: `unknownMapping`; the caller adds the path.
    package func operation(_ payload: JSONValue, mapping name: String) throws(Fault) -> StagingOperation {
        guard let mapping = model.index(ofMapping: name) else {
            let known = model.mappings.map(\.name).sorted().prefix(20).joined(separator: ", ")
            let ending = NearMiss.ending(name, among: model.mappings.lazy.map(\.name))
            throw Fault(
                .unknownMapping,
                "The model has no mapping \(name.quotedBriefly)\(ending) "
                    + (known.isEmpty ? "It has none." : "It has: \(known)."))
        }
        return StagingOperation(entity: entity(of: mapping), json: payload, .map(mapping: mapping, nil))
    }

    /// Returns the operation that reads a payload by the routes whose pattern fits the path, or that have no pattern.
    ///
    /// Routes are tried in order. Each route with a key path takes its part of the payload; a route without one takes
    /// the whole payload, unless an earlier route has taken a part. Routes for errors are tried first.
    ///
    /// - Throws: `remoteError` with the payload's own text, or `unmappable`; both with the path. `noRoom` when the
    ///   allowance refuses the memory.
    package mutating func operation(
        _ payload: JSONValue, path: String?
    ) throws(StagingRefusal) -> StagingOperation {
        let fitting = try routes(fitting: path)
        if fitting.isError { throw .fault(located(remoteError(payload), payload)) }
        if let error = fitting.errors.first(in: payload, 0, { $0.reportsError }) {
            throw .fault(located(remoteError(error), error))
        }
        if fitting.parts.first(in: payload, 0, { _ in true }) != nil {
            return StagingOperation(entity: 0, json: payload, .route(fitting.parts))
        }
        if let whole = fitting.whole, let mapping = whole.mapping {
            return StagingOperation(
                entity: entity(of: mapping), json: payload, .map(mapping: mapping, whole.parameters))
        }
        throw .fault(located(unmappable(payload, path), payload))
    }

    private mutating func routes(fitting path: String?) throws(StagingRefusal) -> Fitting {
        let bytes = path.map { Array($0.utf8) }
        if let fitting, fitting.path == bytes { return fitting }
        let split = path.map { PathPattern.SplitPath($0) }
        var parts: [(keyPath: [String], target: RouteTree.Target)] = []
        var errors: [(keyPath: [String], target: RouteTree.Target)] = []
        var isError = false
        var whole: RouteTree.Target?
        for route in model.routes where !isError {
            var parameters: PathParameters?
            if let pattern = route.pattern {
                guard let split, let values = pattern.match(split) else { continue }
                parameters = values.isEmpty ? nil : PathParameters(values)
            }
            guard allowance?.take(RouteTree.memory(route.keyPath ?? [], parameters)) ?? true else {
                throw .noRoom
            }
            let target = RouteTree.Target(mapping: route.mapping, parameters: parameters)
            if route.isError {
                guard let keyPath = route.keyPath else {
                    isError = true
                    continue
                }
                errors.append((keyPath, target))
            } else if let keyPath = route.keyPath {
                if whole == nil { parts.append((keyPath, target)) }
            } else {
                whole = whole ?? target
            }
        }
        let found = Fitting(
            path: bytes, parts: RouteTree(parts), errors: RouteTree(errors), isError: isError,
            whole: whole)
        fitting = found
        return found
    }

    /// The first entity that the mapping makes.
    private func entity(of mapping: Int) -> Int { model.entities(ofMapping: mapping).first ?? 0 }

    private func located(_ fault: Fault, _ value: JSONValue) -> Fault {
        ValuePaths.located(fault, at: value.offset, in: document)
    }

    // MARK: - Faults

    private static let shownNames = 20

    private func unmappable(_ payload: JSONValue, _ path: String?) -> Fault {
        var sees = "it is \(payload.kind.phrase)"
        let object = payload.kind == .array ? payload.elements.first { _ in true } ?? payload : payload
        if object.kind == .object {
            let keys = object.members.lazy.prefix(Self.shownNames).map(\.key.quotedBriefly).joined(separator: ", ")
            let names = keys.isEmpty ? "no keys" : "the keys \(keys)"
            sees = payload.kind == .array ? "the first of its records has \(names)" : "it has \(names)"
        }
        let routes = model.routes.prefix(Self.shownNames).map(\.summary).joined(separator: "; ")
        let where_ = path.map { " with the path \($0.quotedBriefly)" } ?? ""
        return Fault(
            .unmappable,
            routes.isEmpty
                ? "The model has no route that could identify this payload: add one, or name a `mapping`."
                : "No route fits this payload\(where_): \(sees), and the routes are: \(routes). Add a route, or name a `mapping`."
        )
    }

    /// Limit, in bytes, on the payload's own text in a fault.
    private static let shownBytes = 1_000

    private func remoteError(_ value: JSONValue) -> Fault {
        var text: [UInt8] = []
        Self.gather(value, into: &text)
        let isWhole = text.count <= Self.shownBytes
        text.removeLast(max(0, text.count - Self.shownBytes))
        // Removes a character that the limit cut in the middle.
        if !isWhole {
            while let last = text.last, last & 0xC0 == 0x80 { text.removeLast() }
            if let last = text.last, last >= 0xC0 { text.removeLast() }
        }
        return Fault(.remoteError, String(decoding: text, as: UTF8.self) + (isWhole ? "" : "…"))
    }

    /// Keys of error texts, most common first.
    private static let textKeys = [
        "message", "error_description", "description", "detail", "title", "error", "reason", "code",
    ]

    private static func gather(_ value: JSONValue, into text: inout [UInt8]) {
        guard text.count <= shownBytes else { return }
        switch value.kind {
        case .array:
            for element in value.elements {
                guard text.count <= shownBytes else { return }
                if !text.isEmpty { text += "; ".utf8 }
                gather(element, into: &text)
            }
        case .object:
            if let own = textKeys.lazy.compactMap({ value[$0] }).first(where: \.reportsError) {
                return gather(own, into: &text)
            }
            text += value.bytes.prefix(shownBytes + 1)
        default: text += value.bytes.prefix(shownBytes + 1)
        }
    }
}

extension JSONValue {
    /// Whether the value reports an error: it is, or holds, something else than null, `false`, zero and empty texts.
    fileprivate var reportsError: Bool {
        switch kind {
        case .null, .false: false
        case .true: true
        // A number outside of the range of doubles is not zero, either.
        case .number: double != 0
        case .string: !bytes.isEmpty
        case .array: elements.contains(where: \.reportsError)
        case .object: members.contains { $0.value.reportsError }
        }
    }
}

/// Consecutive operations, mostly on one entity, that one worker stages in one context.
///
/// It holds the document that its operations point into, so it may be sent to any thread.
package struct JobCollection: @unchecked Sendable {
    /// Maximum number of collections of one job: more than workers, and few enough that the cost of uniting them is
    /// negligible.
    private static let maximumCount = 16

    let document: JSONDocument
    // Values on the document's immutable tape, which `document` keeps alive.
    let operations: ShortList<StagingOperation>
    /// The rows have ``StagedRows/payload``.
    var keepsPayload = false
    /// A record with a key that the model does not name is at fault.
    var refusesUnknownKeys = false

    /// - Parameters:
    ///   - keepsPayload: the rows have ``StagedRows/payload``.
    ///   - refusesUnknownKeys: a record with a key that the model does not name is at fault.
    package init(
        _ operations: ShortList<StagingOperation>, in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) {
        self.document = document
        self.operations = operations
        self.keepsPayload = keepsPayload
        self.refusesUnknownKeys = refusesUnknownKeys
    }

    /// Divides a job's operations into collections, in payload order. Without operations, returns one empty collection.
    ///
    /// A change of the entity begins a new collection; if it changes often, neighbours share a collection.
    package static func collections(
        of operations: ShortList<StagingOperation>, in document: JSONDocument, keepsPayload: Bool = false,
        refusesUnknownKeys: Bool = false
    ) -> [JobCollection] {
        let collection = { (gathered: ShortList<StagingOperation>) in
            JobCollection(gathered, in: document, keepsPayload: keepsPayload, refusesUnknownKeys: refusesUnknownKeys)
        }
        let runs = 1 + zip(operations, operations.dropFirst()).count { $0.entity != $1.entity }
        let smallest = runs <= maximumCount ? 0 : document.text.count / maximumCount
        var collections: [JobCollection] = []
        var gathered = ShortList<StagingOperation>()
        var bytes = 0
        for operation in operations {
            if let last = gathered.last, last.entity != operation.entity, bytes >= smallest {
                collections.append(collection(gathered))
                gathered = []
                bytes = 0
            }
            gathered.append(operation)
            bytes += operation.json.bytes.count
        }
        collections.append(collection(gathered))
        return collections
    }

    /// Size in bytes of the values that are read.
    var textBytes: Int { operations.reduce(0) { $0 + $1.json.bytes.count } }
}
