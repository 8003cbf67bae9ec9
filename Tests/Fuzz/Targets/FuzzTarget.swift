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
