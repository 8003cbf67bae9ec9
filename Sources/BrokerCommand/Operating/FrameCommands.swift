import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerWire
import Glibc

struct FrameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "frame",
        abstract: "Turns the message on standard input into a frame on standard output.",
        discussion: "For scripts: broker frame <job.json | socat -t 30 - UNIX-CONNECT:broker.sock | broker unframe")

    func run() async throws {
        let content = try JSONText.file("-")
        var encoder = FrameEncoder()
        try StandardOutput.write(try encoder.encode(content.bytes))
    }
}

struct UnframeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unframe",
        abstract: "Prints the messages in the frames on standard input, a line each, as they arrive.")

    func run() async throws {
        var input = FrameInput(STDIN_FILENO)
        while let content = try input.next() {
            try StandardOutput.write(Array(content.bytes) + [UInt8(ascii: "\n")])
            guard StandardOutput.hasReader else { return }
        }
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
                    throw CommandFailure(
                        .failed, "Standard input cannot be read: \(String(cString: strerror(errno))).")
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
