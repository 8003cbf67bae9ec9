import ArgumentParser
import Broker
import BrokerCommandLine
import BrokerInput
import BrokerJSON
import Foundation
import Glibc
import Synchronization

struct RejectsOption: ParsableArguments {
    @Option(
        name: .customLong("rejects"),
        help: ArgumentHelp(
            """
            Write each record that is rejected, or that makes a job fail (of `submit`: each one of that job), to this new \
            file: a line of JSON with the record, its file or page and line, and code and message if it is at fault. \
            Corrected, it is submitted with --root record.
            """, valueName: "file"), completion: .file())
    var path: String?

    /// - Parameter appends: a resumed submission adds to the file of the earlier one.
    func file(appends: Bool = false) throws -> RejectsFile? {
        try path.map { try RejectsFile($0, appends: appends) }
    }
}

/// The file of `--rejects`: a line of JSON for each record that was rejected, or that was in a job that failed.
///
/// Each job's lines are written at once, and removed again when the disk took only a part of them: so the file has whole
/// lines, whenever the program ends.
final class RejectsFile: Sendable {
    private struct State {
        /// Bytes of whole lines.
        var length: off_t
        var count = 0
        /// Lines of an input that are no records.
        var textCount = 0
        /// Those among them that have an error of their own.
        var faultyCount = 0
        /// Why a line is missing.
        var failure: String?
    }

    let path: String
    private let descriptor: Int32
    /// Neither a pipe nor a terminal.
    private let isRegular: Bool
    private let state: Mutex<State>
    /// The lines of jobs that were committed before are in the file already.
    private let omitsDuplicates: Bool
    /// Lines in the file about lines of an input that are no records, which a resumed submission reads again.
    private let known: Set<[UInt8]>

    /// - Parameter appends: a resumed submission adds to the file of the earlier one. Else the file must be new, or empty.
    init(_ path: String, appends: Bool) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o666)
        guard descriptor >= 0 else {
            throw CommandFailure("--rejects: \(path) cannot be written: \(Self.reason)")
        }
        let length = lseek(descriptor, 0, SEEK_END)
        guard length <= 0 || appends else {
            close(descriptor)
            throw CommandFailure(
                "--rejects: \(path) exists and is not empty. Move it, or name another file. (--resume adds to it.)")
        }
        self.path = path
        self.descriptor = descriptor
        var status = stat()
        isRegular = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        omitsDuplicates = length > 0
        let lines = length > 0 ? FileManager.default.contents(atPath: path).map { Array($0) } ?? [] : []
        let mark = Array("\"code\":\"\(BrokerError.Code.unreadable.rawValue)\"".utf8)
        known = Set(lines.split(separator: UInt8(ascii: "\n")).filter { $0.contains(mark) }.map { Array($0) })
        state = Mutex(State(length: max(0, length)))
    }

    deinit {
        // A command that fails before it has sent anything leaves no file.
        if isRegular, state.withLock({ $0.length == 0 }) { unlink(path) }
        close(descriptor)
    }

    /// Adds the records that a committed or tried job rejected.
    func add(_ completion: Completion, of records: JobRecords) {
        if completion.isDuplicate, omitsDuplicates { return }
        add(completion.rejections, of: records)
    }

    /// Adds the record that made a job fail.
    ///
    /// - Parameter withOthers: adds the other records of the job, too, without an error: none of them was applied.
    func add(_ error: any Error, of records: JobRecords, withOthers: Bool) {
        guard let fault = (error as? BrokerError)?.fault else { return }
        let rejection = Completion.Rejection(
            code: fault.code, message: fault.message, path: fault.path, entity: fault.entity, attribute: fault.attribute
        )
        add([rejection], of: records, withOthers: withOthers)
    }

    private func add(_ faults: [Completion.Rejection], of records: JobRecords, withOthers: Bool = false) {
        var found: [Int: [(fault: Completion.Rejection, path: String)]] = [:]
        for fault in faults {
            guard let (index, path) = records.find(fault.path) else { continue }
            found[index, default: []].append((fault, path))
        }
        guard !found.isEmpty else { return }
        var lines: [UInt8] = []
        let written = withOthers ? Array(records.starts.indices) : found.keys.sorted()
        for index in written {
            Self.write(records.line(index), found[index] ?? [], records.place(ofRecord: index), to: &lines)
        }
        write(lines, count: written.count, faultyCount: found.count)
    }

    /// Adds a line of the input that is no record.
    func add(_ reject: InputReject, of file: String) {
        var writer = JSONWriter()
        writer.object { writer in
            if reject.isJSON {
                let isBreak = { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
                writer.member("record", raw: reject.text.map { isBreak($0) ? UInt8(ascii: " ") : $0 })
            } else {
                writer.member("text", String(decoding: reject.text, as: UTF8.self))
            }
            writer.member("code", BrokerError.Code.unreadable.rawValue)
            writer.member("message", reject.fault.reason)
            writer.member("file", file)
            writer.nullable("line", (reject.fault.recordPlace ?? reject.fault.place)?.line)
        }
        guard !known.contains(writer.bytes) else { return }
        write(writer.bytes + [UInt8(ascii: "\n")], count: 1, faultyCount: 1)
        if !reject.isJSON { state.withLock { $0.textCount += 1 } }
    }

    private static func write(
        _ record: [UInt8], _ faults: [(fault: Completion.Rejection, path: String)], _ place: JobPlace,
        to lines: inout [UInt8]
    ) {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("record", raw: record)
            if let first = faults.first { write(first.fault, first.path, to: &writer) }
            if case .records(let numbers, let file, let line) = place {
                writer.member("file", file)
                writer.nullable("line", line)
                writer.member("index", numbers.lowerBound)
            }
            guard faults.count > 1 else { return }
            writer.objects("others", of: faults.dropFirst()) { write($0.fault, $0.path, to: &$1) }
        }
        lines += writer.bytes
        lines.append(UInt8(ascii: "\n"))
    }

    static func write(_ fault: Completion.Rejection, _ path: String, to writer: inout JSONWriter) {
        writer.member("code", fault.code.rawValue)
        writer.member("path", path)
        writer.member("message", fault.message)
        writer.member("entity", fault.entity)
        writer.member("attribute", fault.attribute)
    }

    private func write(_ lines: [UInt8], count: Int, faultyCount: Int) {
        state.withLock { state in
            var written = 0
            while written < lines.count {
                let result = lines[written...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
                guard result > 0 else {
                    if result < 0, errno == EINTR { continue }
                    state.failure = state.failure ?? Self.reason
                    if isRegular {
                        ftruncate(descriptor, state.length)
                        lseek(descriptor, state.length, SEEK_SET)
                    }
                    return
                }
                written += result
            }
            state.length += off_t(lines.count)
            state.count += count
            state.faultyCount += faultyCount
        }
    }

    /// Says at the end of the command how many records are in the file, and removes an empty one.
    ///
    /// - Returns: false when records are missing in it.
    func finish() -> Bool {
        let state = state.withLock { $0 }
        let (count, faultyCount) = (state.count, state.faultyCount)
        if let failure = state.failure {
            Program.report("broker: --rejects: not all rejected records could be written to \(path): \(failure)")
        }
        if count > 0 {
            let those = Program.counted(count, "record")
            let place = count == faultyCount ? "at fault in \(path)" : "in \(path), \(faultyCount) of them at fault"
            let texts =
                state.textCount == 0
                ? ""
                : " (\(Program.counted(state.textCount, "line")) that could not be read: put \"record\" in the place of \"text\")"
            Program.report("broker: \(those) \(place)\(texts); when they are corrected, submit it with --root record")
        }
        if state.length == 0, isRegular { unlink(path) }
        return state.failure == nil
    }

    private static var reason: String { String(cString: strerror(errno)) }
}
