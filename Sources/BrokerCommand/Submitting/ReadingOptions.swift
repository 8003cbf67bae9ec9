public import ArgumentParser
public import Broker
import BrokerCommandLine
import Glibc

/// What happens with what the model does not have.
struct StrictOptions: ParsableArguments {
    @Option(
        help: """
            What happens with a key that the model does not name: it is counted in a warning, and stored in _extra where the \
            entity has that (warn), or its record is invalid (fail).
            """)
    var unknown: Job.UnknownKeys = .warn

    @Flag(
        help: """
            Skip records with keys or values that the model, as it is, has no place for but _extra: the same as --on-invalid \
            skip --unknown fail --no-evolve.
            """)
    var strict = false

    var unknownKeys: Job.UnknownKeys { strict ? .fail : unknown }

    func policy(_ given: Job.OnInvalid) -> Job.OnInvalid { strict ? .skip : given }

    /// Whether the store's model is extended; nil where that says so.
    func evolves(_ given: Bool?) -> Bool? { given ?? (strict ? false : nil) }
}

/// How the commands that submit any number of jobs read records, and what happens with those that the model does not fit.
struct ReadingOptions: ParsableArguments {
    @Option(help: "The entity of the records.", completion: .entity)
    var entity: String?

    @Option(
        help: .value(
            "path",
            "The path that the payload was requested from, such as /articles/5: the model's routes for it apply. Default "
                + "of `broker load`: the path of each URL.")
    )
    var path: String?

    @Option(help: .value("name", "The model's mapping that reads the payload."))
    var mapping: String?

    @Option(
        name: .customLong("on-invalid"), help: "What happens with an invalid record: fail its job, or skip the record.")
    var givenPolicy: Job.OnInvalid = .fail

    @OptionGroup var strictness: StrictOptions

    @Flag(help: "An input without records is no error.")
    var empty = false

    var onInvalid: Job.OnInvalid { strictness.policy(givenPolicy) }
    var unknown: Job.UnknownKeys { strictness.unknownKeys }

    @OptionGroup var inference: InferenceOptions

    mutating func validate() throws {
        let readings = [("--entity", entity), ("--path", path), ("--mapping", mapping)].filter { $1 != nil }.map(\.0)
        if readings.count > 1 {
            throw ValidationError("\(readings.joined(separator: " and ")) contradict each other; give one of them.")
        }
    }

    /// Takes an argument as the entity of the records, if no option says what they are, and it is a name and no file.
    mutating func takesEntity(_ argument: String) -> Bool {
        guard entity == nil, path == nil, mapping == nil, Self.isName(argument), access(argument, F_OK) != 0 else {
            return false
        }
        entity = argument
        return true
    }

    /// Letters, digits and `_`, and no digit first.
    static func isName(_ text: String) -> Bool {
        text.unicodeScalars.first.map { $0 == "_" || $0.properties.isAlphabetic } ?? false
            && text.unicodeScalars.allSatisfy {
                $0 == "_" || $0.properties.isAlphabetic || $0.properties.numericType != nil
            }
    }

    /// Whether the store's model is extended; nil where it says so.
    var evolves: Bool? { strictness.evolves(inference.evolve) }

    /// A model of the records may be inferred.
    func mayInfer(_ connection: ConnectionOptions) -> Bool {
        connection.mayInfer && entity != nil
    }

    func checkInference(_ connection: ConnectionOptions) throws {
        try inference.check(mayInfer: mayInfer(connection))
    }

    func operation(_ json: RawJSON, inferredMapping: String?, path: String? = nil) -> Job.Operation {
        if let mapping = inferredMapping ?? mapping { return .processPayload(json: json, by: .mapping(mapping)) }
        if let entity { return .process(json: json, as: entity) }
        return .processPayload(json: json, by: (self.path ?? path).map { .path($0) } ?? .keyPaths)
    }
}

extension Job.OnInvalid: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.fail, .skip]
}

extension Job.UnknownKeys: ExpressibleByArgument, WordArgument {
    public static let known: [Self] = [.warn, .fail]
}
