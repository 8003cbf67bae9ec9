import BrokerSchema
import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore

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
