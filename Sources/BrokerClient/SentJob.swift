internal import Broker

/// A job, and the connection that it was added to.
struct SentJob: Sendable {
    let driver: SessionDriver
    let place: Session.Jobs.Place

    var id: JobID { place.id }

    /// The job is not wanted any more: it is not sent, or the server is asked to cancel it.
    func cancel() { driver.cancel(place) }

    /// It is not sent if it still waits for room.
    func withdraw() { driver.withdraw(place) }
}
