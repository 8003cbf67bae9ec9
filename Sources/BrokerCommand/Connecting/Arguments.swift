public import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerWire
import Glibc

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
    static let entity = CompletionKind.custom { words, _, beginning in
        entities(words).filter { $0.hasPrefix(beginning) }
    }

    private static func entities(_ words: [String]) -> [String] {
        /// The values of an option, given as `--option value` or `--option=value`.
        func values(of option: String) -> [String] {
            zip(words, words.dropFirst() + [""]).compactMap { word, next in
                word.hasPrefix(option + "=") ? String(word.dropFirst(option.count + 1)) : word == option ? next : nil
            }
        }
        let (models, store) = (values(of: "--model"), values(of: "--store").last)
        guard !models.isEmpty || store != nil else {
            return ServerEntities.names(ofSocket: ConnectionOptions.path(ofSocket: values(of: "--socket").last))
        }
        let plan =
            models.isEmpty
            ? try? LocalModel(ofStore: store ?? "")?.plan(isSilent: true) : try? ModelFile(models).plan()
        return plan?.model.entities.map(\.name) ?? []
    }
}

/// The names that a server's `welcome` has, asked for on the calling thread: the completion of a command line is not
/// asynchronous.
private enum ServerEntities {
    /// Microseconds for each call: a server that is busy must not make a shell wait.
    private static let patience = 300_000

    /// Empty when there is no server that answers.
    static func names(ofSocket path: String) -> [String] {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var patience = timeval(tv_sec: 0, tv_usec: Self.patience)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &patience, socklen_t(MemoryLayout<timeval>.size))
        }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return [] }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        var encoder = FrameEncoder()
        var frames = FrameInput(descriptor)
        guard isConnected, let hello = try? encoder.encode(MessageWriter.hello(client: "broker completion")),
            send(descriptor, hello, hello.count, Int32(MSG_NOSIGNAL)) == hello.count,
            let welcome = try? frames.next(), let document = try? JSONDocument(parsing: welcome)
        else { return [] }
        return withExtendedLifetime(document) { document.root["entities"]?.elements.compactMap(\.string) ?? [] }
    }
}

/// Frames read from a descriptor, one after the other.
struct FrameInput: ~Copyable {
    private let descriptor: Int32
    private var decoder = FrameDecoder()
    private var unread: [UInt8] = []

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    /// The content of the next frame; nil after the last.
    mutating func next() throws -> JSONText? {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            switch try unread.withUnsafeBytes({ try FrameScanner.scan($0) }) {
            case .frame(let payload):
                let content = try unread.withUnsafeBytes {
                    try decoder.decode(UnsafeRawBufferPointer(rebasing: $0[payload]))
                }
                unread.removeFirst(payload.upperBound)
                return content
            case .incomplete(let total):
                let count = read(descriptor, &buffer, buffer.count)
                guard count >= 0 else {
                    throw CommandFailure(.failed, "Standard input cannot be read: \(String(cString: strerror(errno))).")
                }
                if count == 0 {
                    if let error = FrameScanner.endOfStream(unread.count, totalCount: total) { throw error }
                    return nil
                }
                unread += buffer.prefix(count)
            }
        }
    }
}
