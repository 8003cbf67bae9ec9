import TestSupport

/// The messages and answers of a round's clients, compared with the promises of the answers themselves.
struct ClientAnswers {
    struct End {
        let sequence: Int?
        let isCompleted: Bool
        let message: Message
    }

    /// How often, by name.
    private(set) var sendings: [String: Int] = [:]
    /// By name, the last answer.
    private(set) var ends: [String: End] = [:]
    /// The job of each sequence that was sent.
    private(set) var owners: [Int: String] = [:]
    /// Sequences of `accepted` messages, by name.
    private(set) var accepted: [String: [Int]] = [:]

    init(_ logs: [[ClientLog.Entry]]) throws {
        for log in logs {
            var connection = Connection()
            for entry in log {
                switch entry {
                case .connected: connection = Connection()
                case .sent(let name, _):
                    sendings[name, default: 0] += 1
                    connection.send(name)
                case .received(let text):
                    let message = try Message(text: text)
                    if message.isRefusal { continue }
                    try note(message)
                    try connection.note(message, sendings: sendings)
                }
            }
        }
    }

    private mutating func note(_ message: Message) throws {
        guard let name = message["tag"], sendings[name] != nil else { throw Difference("Unexpected: \(message.text)") }
        let sequence = message["sequence"].flatMap { Int($0) }
        if let sequence {
            let owner = owners.updateValue(name, forKey: sequence)
            guard owner ?? name == name else {
                throw Difference("The sequence \(sequence) was reported for \(owner!) and for \(name).")
            }
        }
        switch message.type {
        case "accepted":
            guard let sequence else { throw Difference("No sequence: \(message.text)") }
            accepted[name, default: []].append(sequence)
        case "completed", "failed":
            let end = End(sequence: sequence, isCompleted: message.type == "completed", message: message)
            guard end.sequence != nil else { throw Difference("No sequence: \(message.text)") }
            if let before = ends[name], before.sequence != end.sequence {
                throw Difference("Two answers for one job:\n\(before.message.text)\n\(message.text)")
            }
            ends[name] = end
        default: throw Difference("Unexpected: \(message.text)")
        }
    }

    /// The order of one connection.
    private struct Connection {
        private var sent: [String] = []
        /// By name, where it is in `sent`.
        private var places: [String: Int] = [:]
        /// By place; 0 for none yet.
        private var sequences: [Int] = []
        private var newestCompleted = 0

        mutating func send(_ name: String) {
            places[name] = sent.count
            sent.append(name)
            sequences.append(0)
        }

        mutating func note(_ message: Message, sendings: [String: Int]) throws {
            let name = message["tag"] ?? ""
            let sequence = message.sequence
            // A duplicate's end has the sequence of the original, and a short one does not say whose it is.
            let isDuplicate = message["duplicate"].map { $0 == "true" } ?? (sendings[name] ?? 0 > 1)
            if message.type == "completed", isDuplicate { return }
            if message.type == "completed" {
                guard sequence > newestCompleted else {
                    throw Difference(
                        "\(sequence) was reported as completed after \(newestCompleted), on one connection.")
                }
                newestCompleted = sequence
            }
            guard let place = places[name] else { return }
            sequences[place] = sequence
            let before = sequences[..<place].last { $0 > 0 }
            let after = sequences[(place + 1)...].first { $0 > 0 }
            guard before ?? 0 < sequence, sequence < after ?? .max else {
                throw Difference(
                    "Sent in the order \(sent), but the sequences are \(sequences): that of \(name) is \(sequence).")
            }
        }
    }
}
