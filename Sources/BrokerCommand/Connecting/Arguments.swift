public import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import BrokerModel

/// A key or a predicate's argument on the command line: JSON where it is JSON, else text. So 7, Ada and
/// {"floor": 1, "number": "a"} go without more quotes than the shell wants.
struct CommandValue: ExpressibleByArgument {
    /// As it was written.
    let text: String
    let json: RawJSON

    init?(argument: String) {
        text = argument
        do throws(JSONError) {
            _ = try JSONDocument(parsing: JSONText(copying: Array(argument.utf8)))
            json = RawJSON(argument)
        } catch {
            var writer = JSONWriter()
            writer.string(argument)
            json = RawJSON(writer.bytes)
        }
    }
}

/// Which objects an operation is about.
struct SelectionOptions: ParsableArguments {
    @Option(
        name: .customLong("where"),
        help: .value("predicate", "A predicate on the objects, such as \"department.name == %@ AND age > 30\"."))
    var format: String?

    @Option(
        name: .customLong("argument"), parsing: .unconditionalSingleValue,
        help: .value("value", "A value for the predicate's next %@: JSON, or else text. May be given several times."))
    var arguments: [CommandValue] = []

    mutating func validate() throws {
        if format == nil, !arguments.isEmpty { throw ValidationError("--argument fills a %@ of --where.") }
    }

    /// The language of predicates in a few lines, for the help of the commands that take one.
    static let language = """
        Predicates are written as NSPredicate's:
          ==  !=  <  <=  >  >=             age >= 30
          IN  BETWEEN                      age BETWEEN {30, 40} AND name IN %@
          BEGINSWITH  ENDSWITH  CONTAINS   name BEGINSWITH[cd] "a"
          LIKE  MATCHES                    email LIKE "*.example"
          AND  OR  NOT  ( )                NOT (age < 30 OR name == nil)
          ANY  ALL  NONE  @count           ANY pets.name == "Rex" OR pets.@count > 3
        A key path goes through to-one relationships: department.name == "R&D". %@ is a value of --argument (JSON, so \
        '["Ada", "Bob"]' for IN), and [cd] ignores case and diacritics. All of it: protocol/predicates.md
        """

    /// Nil for all objects.
    var predicate: BrokerPredicate? {
        format.map { BrokerPredicate($0, arguments: arguments.map(\.json)) }
    }
}

/// A word of the protocol as an argument: one of those that are known.
public protocol WordArgument: RawRepresentable<String>, ExpressibleByArgument {
    static var known: [Self] { get }
}

extension WordArgument {
    public init?(argument: String) {
        guard let word = Self.known.first(where: { $0.rawValue == argument }) else { return nil }
        self = word
    }

    public static var allValueStrings: [String] { known.map(\.rawValue) }

    public static var defaultCompletionKind: CompletionKind { .list(allValueStrings) }

    public var defaultValueDescription: String { rawValue }
}

extension CompletionKind {
    /// The entities of the model that the arguments name: the files of `--model`, else the store of `--store`, else the
    /// server. None when there is no such model: a shell shows no errors while a line is typed.
    static let entity = CompletionKind.custom { words, _, beginning async in
        await entities(words).filter { $0.hasPrefix(beginning) }
    }

    private static func entities(_ words: [String]) async -> [String] {
        /// The values of an option, given as `--option value` or `--option=value`.
        func values(of option: String) -> [String] {
            zip(words, words.dropFirst() + [""]).compactMap { word, next in
                word.hasPrefix(option + "=") ? String(word.dropFirst(option.count + 1)) : word == option ? next : nil
            }
        }
        let (models, store) = (values(of: "--model"), values(of: "--store").last)
        guard !models.isEmpty || store != nil else {
            var options = RemoteBroker.Configuration(name: "broker completion")
            // A server that is busy must not make a shell wait.
            options.connectTimeout = .milliseconds(300)
            options.waitsForServer = false
            let path = ConnectionOptions.path(ofSocket: values(of: "--socket").last)
            let broker = try? await RemoteBroker.connect(to: .unixSocket(path), configuration: options)
            defer { broker?.close() }
            return (try? await broker?.serverInformation().entities) ?? []
        }
        let plan =
            models.isEmpty
            ? try? LocalModel(ofStore: store ?? "")?.plan(isSilent: true) : try? ModelFile(models).plan()
        return plan?.model.entities.map(\.name) ?? []
    }
}
