import BrokerJSON
import BrokerWire
import Foundation
import Testing
import TestSupport

/// The error that `body` throws; a failure of the test when it throws none.
func refusal(_ body: () throws(WireError) -> Void, at location: SourceLocation = #_sourceLocation) -> WireError? {
    do throws(WireError) {
        try body()
        Issue.record("nothing was refused", sourceLocation: location)
        return nil
    } catch {
        return error
    }
}

/// Decodes an LZ4 frame with a new decoder.
func decode(payload: [UInt8], limits: FrameLimits = FrameLimits()) throws(WireError) -> [UInt8] {
    var decoder = FrameDecoder(limits: limits)
    return try decode(payload: payload, with: &decoder)
}

func decode(payload: [UInt8], with decoder: inout FrameDecoder) throws(WireError) -> [UInt8] {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, payload.count), alignment: 8)
    defer { bytes.deallocate() }
    bytes.copyBytes(from: payload)
    let text = try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[..<payload.count]))
    return withExtendedLifetime(text) { Array(text.bytes) }
}

/// Cuts one frame off `frame` and decodes it.
func content(ofFrame frame: [UInt8]) throws -> [UInt8] {
    let scan = try frame.withUnsafeBytes { try FrameScanner.scan($0) }
    guard case .frame(let payload) = scan, payload.upperBound == frame.count else {
        throw TestFault("not exactly one frame: \(scan) of \(frame.count) bytes")
    }
    return try decode(payload: Array(frame[payload]))
}

/// The LZ4 frame that our encoder makes.
func payload(of content: [UInt8]) throws -> [UInt8] {
    var encoder = FrameEncoder()
    return Array(try encoder.encode(content).dropFirst(FrameScanner.prefixCount))
}

func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

func message(_ json: String) throws -> ClientEnvelope {
    try ClientEnvelope.decode(parsing: JSONText(copying: utf8(json)))
}

struct TestFault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension SeededGenerator {
    /// Runs of repeated and of random bytes, so that blocks of every kind arise.
    mutating func content(count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let run = Int.random(in: 1...2000, using: &self)
            if Bool.random(using: &self) {
                bytes.append(contentsOf: repeatElement(UInt8.random(in: 0...255, using: &self), count: run))
            } else {
                for _ in 0..<run { bytes.append(UInt8.random(in: 0...255, using: &self)) }
            }
        }
        return Array(bytes.prefix(count))
    }
}

/// Runs the `lz4` program on `input` and gives what it prints.
func lz4(_ arguments: [String], on input: [UInt8]) throws -> [UInt8] {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("broker-wire-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let file = folder.appendingPathComponent("input")
    try Data(input).write(to: file)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["lz4", "-q"] + arguments + ["-c", file.path]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    try FileManager.default.removeItem(at: folder)
    guard process.terminationStatus == 0 else { throw TestFault("lz4 exited with \(process.terminationStatus)") }
    return Array(bytes)
}
