import BrokerModel
import BrokerStore

@testable import BrokerCoordinator

/// The events of jobs, in order. Any thread may note and wait.
final class Events: Sendable {
    private let events = Monitor<[JobEvent]>([])
    private let refusals = Monitor<[String]>([])

    func note(refused message: String) {
        refusals.broadcast {
            $0.append(message)
            return true
        }
    }

    /// A frame could not be opened.
    var hasRefusal: Bool { refusals.withLock { !$0.isEmpty } }

    /// Waits for a frame that could not be opened, and returns its answer.
    var refusal: String { refusals.wait { $0.first } }

    func note(_ event: JobEvent) {
        events.broadcast {
            $0.append(event)
            return true
        }
    }

    /// Waits until so many jobs have ended, and gives back all ends.
    func ends(_ count: Int) -> [Ending] {
        events.patiently("\(count) jobs to end") { events in
            let ends = events.compactMap { if case .ended(let ending) = $0 { Ending(ending) } else { nil } }
            return ends.count >= count ? ends : nil
        }
    }

    /// `accepted a 1`, `ended a 1`: everything so far.
    var all: [String] { events.withLock { $0.map(Self.described) } }

    /// Waits until that, as in ``all``, has happened.
    func waitUntil(_ event: String) {
        events.patiently(event) { $0.contains { Self.described($0) == event } ? () : nil }
    }

    private static func described(_ event: JobEvent) -> String {
        switch event {
        case .accepted(let id, let sequence): "accepted \(id) \(sequence)"
        case .progress(let id, let staged, let merged): "progress \(id) \(staged) \(merged)"
        case .ended(let ending): "ended \(ending.id) \(ending.sequence.map(String.init) ?? "-")"
        }
    }
}

/// How a job ended, as its client would read it.
struct Ending: Equatable {
    let id: String
    let sequence: Int64?
    let isDuplicate: Bool
    /// The code of the fault of a failed job.
    let code: String?
    /// The JSON members of `completed`, or the `error` object.
    let body: String
    /// Nil unless the job asked for them.
    let objects: ReplyObjects?

    init(_ ending: JobCompletion) {
        id = ending.id
        sequence = ending.sequence
        objects = ending.objects
        switch ending.result {
        case .completed(let members, let isDuplicate):
            self.isDuplicate = isDuplicate
            code = nil
            body = String(decoding: members, as: UTF8.self)
        case .failed(let error):
            isDuplicate = false
            body = String(decoding: error, as: UTF8.self)
            code = body.split(separator: "\"").dropFirst(3).first.map(String.init)
        }
    }
}

enum Awaited: Equatable {
    case unknown
    case ended(Ending)
    case failed

    init(_ result: Result<JobCompletion?, StoreError>) {
        switch result {
        case .success(let ending): self = ending.map { .ended(Ending($0)) } ?? .unknown
        case .failure: self = .failed
        }
    }

    var ending: Ending? {
        if case .ended(let ending) = self { ending } else { nil }
    }
}
