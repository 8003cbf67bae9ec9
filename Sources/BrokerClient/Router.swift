internal import BrokerJSON
internal import BrokerPaths

/// The paths of a server's resources, as RestKit's router knows them: patterns whose parameters an object fills.
///
/// ```swift
/// let router = Router(["Article": "/articles/:articleID"])
/// let path = try router.path(for: article, as: "Article")           // "/articles/5"
/// let payload = try await download(path)
/// try await broker.map(json: payload, by: .path(path))
/// ```
public struct Router: Sendable {
    private var patterns: [String: PathPattern] = [:]

    /// - Parameter patterns: by a name of the caller's choice, as a rule an entity's.
    /// - Throws: ``BrokerError/notEncodable(reason:)`` with what is wrong with a pattern.
    public init(_ patterns: [String: String] = [:]) throws(BrokerError) {
        for (name, pattern) in patterns { try route(name, to: pattern) }
    }

    /// Adds a pattern, or puts it in the place of the one of that name.
    public mutating func route(_ name: String, to pattern: String) throws(BrokerError) {
        patterns[name] = try Self.read(pattern)
    }

    /// The path of one object: the pattern with the values of its members of the parameters' names, percent-encoded.
    ///
    /// - Parameter object: a value that is encoded as an object, or a dictionary; numbers and booleans are written as in JSON.
    /// - Throws: ``BrokerError/notEncodable(reason:)`` when there is no such pattern or no such object, or with what the
    ///   object lacks.
    public func path(for object: some Encodable, as name: String) throws -> String {
        try path(json: BrokerClient.JSON(encoding: object), as: name)
    }

    /// The path of one object that is given as JSON text; else as ``path(for:as:)``.
    public func path(json: some BrokerClient.JSONTextSource, as name: String) throws -> String {
        guard let pattern = patterns[name] else {
            throw BrokerError.notEncodable(reason: "The router has no pattern \(name). Add one with route(_:to:).")
        }
        return try Self.path(pattern, for: json.makeJSON())
    }

    /// The path of one object by a pattern.
    public static func path(_ pattern: String, for object: some Encodable) throws -> String {
        try path(read(pattern), for: BrokerClient.JSON(encoding: object))
    }

    private static func read(_ pattern: String) throws(BrokerError) -> PathPattern {
        do throws(PathPatternError) {
            return try PathPattern(pattern)
        } catch {
            throw .notEncodable(reason: "The pattern cannot be used: \(error).")
        }
    }

    private static func path(_ pattern: PathPattern, for object: BrokerClient.JSON) throws -> String {
        let document = try JSONDocument(parsing: JSONText(copying: object.proven(at: "").bytes))
        guard document.root.kind == .object else {
            throw BrokerError.notEncodable(
                reason: "A path is filled from an object, not from \(document.root.kind.phrase).")
        }
        do {
            return try withExtendedLifetime(document) {
                try pattern.path { name in
                    guard let value = document.root[name], value.kind != .object, value.kind != .array, !value.isNull
                    else { return nil }
                    return String(decoding: value.bytes, as: UTF8.self)
                }
            }
        } catch let error as PathPatternError {
            throw BrokerError.notEncodable(reason: "\(error).")
        }
    }
}
