internal import BrokerJSON
internal import BrokerWire

/// A connection of the load's: bytes that wait to be sent, and answers as they come.
final class LoadConnection {
    private static let receiveBytes = 256 << 10

    let socket: LoadSocket
    /// Jobs without an end.
    var inFlight = 0
    /// No answer comes any more.
    private(set) var isClosed = false
    /// The server takes nothing more; answers that it sent before can still be read.
    private var isSendingOver = false

    private var outgoing: [UInt8] = []
    private var sent = 0
    private var incoming: [UInt8]
    private var received = 0
    private var decoder = FrameDecoder()

    init(_ socket: LoadSocket) {
        self.socket = socket
        incoming = [UInt8](repeating: 0, count: Self.receiveBytes)
    }

    var canSend: Bool { !isSendingOver && !isClosed }
    var wantsToSend: Bool { sent < outgoing.count && canSend }

    func enqueue(_ bytes: some Collection<UInt8>) { outgoing.append(contentsOf: bytes) }

    /// Sends what the socket takes.
    func flush() {
        while wantsToSend {
            let result = outgoing.withUnsafeBytes { socket.send(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
            switch result {
            case .bytes(let count):
                sent += count
            case .wouldBlock: return
            case .closed: isSendingOver = true
            }
        }
        outgoing.removeAll(keepingCapacity: true)
        sent = 0
    }

    /// Reads once, and calls `body` with the content of every whole frame.
    func receive(_ body: (JSONText) throws(WireError) -> Void) throws(WireError) {
        let result = incoming.withUnsafeMutableBytes {
            socket.receive(into: UnsafeMutableRawBufferPointer(rebasing: $0[received...]))
        }
        switch result {
        case .bytes(let count):
            received += count
        case .wouldBlock: return
        case .closed:
            isClosed = true
            return
        }
        try readFrames(body)
    }

    private func readFrames(_ body: (JSONText) throws(WireError) -> Void) throws(WireError) {
        var start = 0
        var wanted = 0
        while true {
            let scan = try scanFrame(from: start)
            guard case .frame(let payload) = scan else {
                if case .incomplete(let total) = scan { wanted = total ?? 0 }
                break
            }
            try body(try decode(start + payload.lowerBound..<start + payload.upperBound))
            start += payload.upperBound
        }
        if start > 0 {
            let left = received - start
            incoming.withUnsafeMutableBytes { bytes in
                bytes.baseAddress!.copyMemory(from: bytes.baseAddress! + start, byteCount: left)
            }
            received = left
        }
        // A frame that is larger than the buffer, or the next bytes at least.
        let needed = max(wanted, received + 1)
        if needed > incoming.count { incoming.append(contentsOf: repeatElement(0, count: needed - incoming.count)) }
    }

    private func scanFrame(from start: Int) throws(WireError) -> FrameScan {
        // A closure of the standard library's cannot throw a typed error out of this, so the result carries it.
        try incoming.withUnsafeBytes { bytes in
            Result { () throws(WireError) in
                try FrameScanner.scan(UnsafeRawBufferPointer(rebasing: bytes[start..<received]))
            }
        }.get()
    }

    private func decode(_ place: Range<Int>) throws(WireError) -> JSONText {
        try incoming.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[place])) }
        }.get()
    }
}
