internal import BrokerJSON
internal import BrokerModel

/// The decisions and faults of one model's conversion. Belongs to one conversion on one thread.
final class ConversionReport {
    private var notes: [ModelNote] = []
    private(set) var faults: [ModelFault] = []

    /// By place; notes of one place in the order in which they were made.
    var notesInOrder: [ModelNote] {
        notes.enumerated()
            .sorted { first, second in
                let (one, other) = (first.element.place, second.element.place)
                return (one.line, one.column, first.offset) < (other.line, other.column, second.offset)
            }
            .map(\.element)
    }

    func add(_ note: ModelNote) { notes.append(note) }
    func add(_ fault: ModelFault) { faults.append(fault) }
}

/// Adds notes and faults about one element of the model: its pointer in the document, and its place in the XML.
struct ElementReport {
    let pointer: String
    let place: SourcePlace
    let conversion: ConversionReport

    func taken(_ message: String) { note(.taken, message) }
    func inferred(_ message: String) { note(.inferred, message) }
    func leftOut(_ message: String) { note(.leftOut, message) }
    func passedOver(_ message: String) { note(.passedOver, message) }

    func fault(_ message: String) { conversion.add(ModelFault(message, at: modelPlace)) }

    func part(_ names: String..., at place: SourcePlace) -> ElementReport {
        let pointer = names.reduce(pointer) { $0 + "/" + $1.asPointerToken }
        return ElementReport(pointer: pointer, place: place, conversion: conversion)
    }

    private func note(_ kind: ModelNote.Kind, _ message: String) {
        conversion.add(ModelNote(kind, message, at: modelPlace))
    }

    private var modelPlace: ModelPlace {
        ModelPlace(pointer: pointer, source: place.source, line: place.line, column: place.column)
    }
}

/// Makes the values of a part of the document, all of which have the position of their element.
struct DocumentWriter {
    let place: SourcePlace
    private(set) var members: [ModelValue.Member] = []

    init(at place: SourcePlace) { self.place = place }

    var object: ModelValue { ModelValue(.object(members), at: place) }

    mutating func add(_ key: String, _ value: ModelValue?) {
        guard let value else { return }
        members.append(ModelValue.Member(key, at: value.place, value))
    }

    mutating func add(_ key: String, _ text: String?) {
        guard let text else { return }
        add(key, ModelValue(.string(text), at: place))
    }

    mutating func add(_ key: String, _ flag: Bool) { add(key, ModelValue(.bool(flag), at: place)) }

    mutating func add(_ key: String, number: Int) { add(key, ModelValue(.number("\(number)"), at: place)) }

    mutating func add(_ key: String, _ texts: [String]) {
        add(key, ModelValue(.array(texts.map { ModelValue(.string($0), at: place) }), at: place))
    }

    mutating func add(_ key: String, _ lists: [[String]]) {
        let lists = lists.map { list in
            ModelValue(.array(list.map { ModelValue(.string($0), at: place) }), at: place)
        }
        add(key, ModelValue(.array(lists), at: place))
    }
}
