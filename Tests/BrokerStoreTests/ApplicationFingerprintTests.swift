import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct ApplicationFingerprintTests {
    private func fingerprint(_ zones: String...) throws -> ApplicationFingerprint {
        let attributes = zones.enumerated().map { #""a\#($0)": {"type": "date", "timeZone": "\#($1)"}"# }
        return ApplicationFingerprint(
            try stagingPlan("{\"entities\": {\"Row\": {\"attributes\": {\(attributes.joined(separator: ","))}}}}"))
    }

    @Test func `a fingerprint has what decides outcomes, and its text has all of it`() throws {
        let fingerprint = try fingerprint("Europe/Berlin", "+02:00")
        let names = fingerprint.text.split(separator: "\n").map { $0.prefix { $0 != "=" } }
        #expect(names == ["broker", "sqlite", "swift", "timeZoneData", "re2", "timeZone Europe/Berlin"])
        #expect(fingerprint.text.contains("sqlite=20") && !fingerprint.text.contains("none"))
        #expect(ApplicationFingerprint(fingerprint.text) == fingerprint)
        #expect(ApplicationFingerprint("sqlite") == nil)
        #expect(fingerprint.digits.wholeMatch(of: /[0-9a-f]{16}/) != nil)
        #expect(try fingerprint == self.fingerprint("+02:00", "Europe/Berlin"))
    }

    @Test func `two fingerprints say in what they differ`() throws {
        let (one, other) = (try fingerprint("Europe/Berlin"), try fingerprint("Asia/Kolkata", "Europe/Berlin"))
        #expect(one.digits != other.digits)
        let differences = other.differences(from: one)
        #expect(differences.count == 1 && differences[0].hasPrefix("timeZone Asia/Kolkata was absent, is "))
        let older = try #require(ApplicationFingerprint(one.text.replacing("sqlite=20", with: "sqlite=19")))
        #expect(one.differences(from: older).map { $0.prefix(13) } == ["sqlite was 19"])
        #expect(one.differences(from: one) == [])
    }

    @Test func `statistics of ANALYZE are in the fingerprint of a store that is opened after them`() throws {
        let test = try TestStore(#"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64"}}}}"#)
        try test.apply(#"{"Row": [{"id": 1}, {"id": 2}]}"#)
        let before = test.store.fingerprint
        #expect(before == ApplicationFingerprint(test.store.merger.plan))
        try test.store.connection.execute("ANALYZE")
        try test.reopen()
        let again = test.store.fingerprint
        #expect(again.differences(from: before).map { $0.prefix(26) } == ["statistics was absent, is "])
        try test.reopen()
        #expect(test.store.fingerprint == again)
    }

    /// Vienna's clocks were once changed on other days than Berlin's; Busingen's have gone like Zurich's since 1970.
    @Test func `a zone whose clocks were once changed at another time is another zone`() throws {
        func hash(_ zone: String) throws -> Substring { try fingerprint(zone).text.split(separator: "=").last! }
        #expect(try hash("Europe/Berlin") != hash("Europe/Vienna"))
        #expect(try hash("Europe/Busingen") == hash("Europe/Zurich"))
    }
}
