import BrokerJSON
import BrokerModel
import BrokerSchema
import BrokerStaging
import BrokerStore
import BrokerWire
import Synchronization

/// One door through which bytes from outside come in, and what must hold whatever they are.
///
/// Created once, then given one input after the other by one thread; an input leaves no state for the next one.
package protocol FuzzTarget: AnyObject {
    init() throws

    /// - Throws: ``FuzzFinding`` when something does not hold. Refusing the input is no finding.
    func run(_ input: UnsafeRawBufferPointer) throws
}

/// Something that must hold does not.
package struct FuzzFinding: Error, CustomStringConvertible {
    package let description: String
}

func require(_ holds: Bool, _ claim: @autoclosure () -> String) throws(FuzzFinding) {
    guard holds else { throw FuzzFinding(description: claim()) }
}

/// All targets by the names of their folders in `Tests/Fuzz/Corpora`. A new one is added here and has seeds there.
package let fuzzTargets: [(name: String, type: any (FuzzTarget & SendableMetatype).Type)] = [
    ("frames", FrameTarget.self),
    ("lz4", LZ4Target.self),
    ("json", JSONTarget.self),
    ("messages", MessageTarget.self),
    ("model-json", ModelDocumentTarget.self),
    ("model-xml", CoreDataTarget.self),
    ("predicates", PredicateTarget.self),
    ("dates", DateTarget.self),
    ("staging", StagingTarget.self),
    ("formats", FormatTarget.self),
    ("journal", JournalTarget.self),
]

/// Takes an input apart, so that some of its bytes choose what is done with the others.
struct FuzzInput {
    private(set) var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    /// The next byte; 0 when there is none.
    mutating func byte() -> UInt8 {
        guard let first = rest.first else { return 0 }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst())
        return first
    }

    /// The bytes before the next line feed, which is skipped, or all remaining bytes.
    mutating func line() -> UnsafeRawBufferPointer {
        let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? rest.endIndex
        let line = UnsafeRawBufferPointer(rebasing: rest[..<end])
        rest = UnsafeRawBufferPointer(rebasing: rest[end...].dropFirst())
        return line
    }

    /// The remaining bytes as text; invalid UTF-8 is replaced.
    var text: String { String(decoding: rest, as: UTF8.self) }
}

/// Grants up to a limit, and counts.
final class CountingAllowance: MemoryAllowance, StagingAllowance {
    private let limit: Int
    private let count = Mutex(0)

    init(limit: Int = .max) { self.limit = limit }

    /// Bytes that are taken and not given back.
    var taken: Int { count.withLock { $0 } }

    func take(_ bytes: Int) -> Bool {
        count.withLock { taken in
            guard bytes <= limit - taken else { return false }
            taken += bytes
            return true
        }
    }

    func giveBack(_ bytes: Int) { count.withLock { $0 -= bytes } }
}

/// Bytes that no fault's sentence may exceed, whatever it quotes.
private let longestFault = 4_096

func requireSound(_ fault: Fault) throws {
    try require(fault.code != .internal, "a fault of ours: \(fault)")
    try require(!fault.message.isEmpty, "a fault says nothing")
    try require(fault.message.utf8.count <= longestFault, "a fault has \(fault.message.utf8.count) bytes")
}

/// The maximum bytes of an `error` message, a tag and an id included: any client can cause one.
private let longestError = 8_192

/// The text for the client: one sentence of Broker's, in JSON, whatever was sent.
func requireSound(_ refused: WireError) throws {
    let encoded = refused.encoded()
    try require(encoded.count <= longestError, "an error message has \(encoded.count) bytes")
    let document: JSONDocument
    do {
        document = try JSONDocument(parsing: JSONText(copying: encoded))
    } catch {
        throw FuzzFinding(description: "an error message is no JSON: \(error)")
    }
    let body = document.root["error"]
    try require(body?["code"]?.string == refused.code.rawValue, "an error message has not its code")
    try require(body?["message"]?.string?.isEmpty == false, "an error message says nothing")
}

/// Bytes of a sentence to the person who wrote a model, with what it quotes.
private let longestSentence = 4_096

extension Model {
    var written: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

/// A model that is read can be written, read again and used for staging; a refused model has an error.
func requireReadable(_ document: ModelDocument) throws {
    do {
        let model = try ModelReader.read(document)
        let written = model.written
        do {
            let again = try ModelReader.read(JSONText(copying: written))
            try require(again.written == written, "a model is written otherwise once it was written and read")
        } catch let error as ModelError {
            throw FuzzFinding(description: "a model that was written is refused: \(error)")
        }
        do {
            let plan = try StagingPlan(model)
            try require(
                !Schema.sql(of: model).isEmpty && plan.model.entities.count == model.entities.count, "no schema")
        } catch let error as ModelError {
            try requireSound(error)
        }
    } catch let error as ModelError {
        try requireSound(error)
    }
}

func requireSound(_ error: ModelError) throws {
    try require(!error.faults.isEmpty, "a model is refused and nothing is wrong")
    for fault in error.faults {
        try require(!fault.message.isEmpty, "a fault says nothing")
        try require(fault.message.utf8.count <= longestSentence, "a fault has a long message: \(fault.message)")
    }
}
