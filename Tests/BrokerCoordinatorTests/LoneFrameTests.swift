import Glibc
import Testing

@testable import BrokerCoordinator

/// Which thread opens a frame.
@Suite(.timeLimit(.minutes(5))) struct LoneFrameTests {
    /// Whether the thread that brings a frame opens it.
    private func isOpenedHere(
        _ test: TestCoordinator, bytes: Int = 100, contentBytesAtMost: Int = 1_000, mayOpenHere: Bool = true
    ) -> Bool {
        let bringer = pthread_self()
        let isHere = Monitor<Bool?>(nil)
        test.coordinator.admit(
            payloadBytes: bytes, contentBytesAtMost: contentBytesAtMost, mayOpenHere: mayOpenHere,
            open: { _ in
                let isBringer = pthread_equal(pthread_self(), bringer) != 0
                isHere.broadcast {
                    $0 = isBringer
                    return true
                }
                return .nothing
            }, refuse: { _ in })
        return isHere.patiently("a frame to be opened") { $0 }
    }

    private static func model(_ attribute: String, _ more: String = "") -> String {
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "text": \#(attribute)}\#(more)}}}"#
    }

    @Test func `a lone small frame is opened by the thread that brings it, if that may`() throws {
        let test = try TestCoordinator(Self.model(#""string""#))
        #expect(isOpenedHere(test))
        #expect(!isOpenedHere(test, mayOpenHere: false))
        #expect(!isOpenedHere(test, contentBytesAtMost: CoordinatorLimits.openedHereBytes + 1))
        #expect(!isOpenedHere(test, bytes: CoordinatorLimits.openedHereBytes + 1))
    }

    @Test func `a frame after another is opened by the thread that brings it only if it is as small as a few records`()
        throws
    {
        let test = try TestCoordinator(Self.model(#""string""#))
        let gate = Gate()
        test.submit(#"{"Row": {"id": 1}}"#, behind: gate)
        #expect(isOpenedHere(test))
        #expect(!isOpenedHere(test, contentBytesAtMost: CoordinatorLimits.openedBesideOthersBytes + 1))
        #expect(!isOpenedHere(test, mayOpenHere: false))
        gate.open()
        _ = test.events.ends(1)
    }

    @Test(arguments: [
        model(#"{"type": "string", "pattern": "(a+)+b"}"#), model(#""string""#, #", "tombstone": "text LIKE 'x*'""#),
    ])
    func `where few bytes may be much work, a worker does it`(model: String) throws {
        #expect(!isOpenedHere(try TestCoordinator(model)))
    }
}
