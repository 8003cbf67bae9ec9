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
        var input = FrameInput()
        while let content = try input.next() {
            try StandardOutput.write(Array(content.bytes) + [UInt8(ascii: "\n")])
            guard StandardOutput.hasReader else { return }
        }
    }
}

/// Frames read from standard input, one after the other.
private struct FrameInput: ~Copyable {
    private var decoder = FrameDecoder()
    private var unread: [UInt8] = []
    private var isAtEnd = false

    /// The content of the next frame; nil after the last.
    mutating func next() throws -> JSONText? {
        while true {
            if let content = try cut() { return content }
            if isAtEnd { return nil }
            try readMore()
        }
    }

    /// The content of the next frame, when it is there whole.
    private mutating func cut() throws(WireError) -> JSONText? {
        let scan = try unread.withUnsafeBufferPointer { bytes throws(WireError) in
            try FrameScanner.scan(UnsafeRawBufferPointer(bytes))
        }
        switch scan {
        case .frame(let payload):
            let content = try unread.withUnsafeBufferPointer { bytes throws(WireError) in
                try decoder.decode(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[payload])))
            }
            unread.removeFirst(payload.upperBound)
            return content
        case .incomplete(let total):
            if isAtEnd, let error = FrameScanner.endOfStream(unread.count, totalCount: total) { throw error }
            return nil
        }
    }

    private mutating func readMore() throws(CommandFailure) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        let count = read(STDIN_FILENO, &buffer, buffer.count)
        guard count >= 0 else {
            throw CommandFailure(.failed, "Standard input cannot be read: \(String(cString: strerror(errno))).")
        }
        isAtEnd = count == 0
        unread += buffer.prefix(count)
    }
}
