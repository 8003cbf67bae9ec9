@testable import BrokerServer
import TestSupport
import Testing

/// The machine in a reference, so that an expectation may change it.
private final class Turns {
    private var turns: AssemblyTurns<Int>

    init(byteLimit: Int) { turns = AssemblyTurns(byteLimit: byteLimit) }

    var isContended: Bool { turns.isContended }
    var heldBytes: Int { turns.heldBytes }
    func ask(_ holder: Int, process: Int32, bytes: Int) -> Bool { turns.ask(holder, process: process, bytes: bytes) }
    func leave(_ holder: Int) -> [Int] { turns.leave(holder) }
}

@Suite(.timeLimit(.minutes(5))) struct AssemblyTurnsTests {
    @Test func `as many connections have a turn as fit, and the next ones when one leaves`() {
        let turns = Turns(byteLimit: 100)
        #expect(turns.ask(1, process: 1, bytes: 60))
        #expect(turns.ask(2, process: 1, bytes: 40))
        #expect(!turns.ask(3, process: 1, bytes: 30))
        #expect(!turns.ask(4, process: 1, bytes: 5), "nobody overtakes")
        #expect(turns.isContended)
        #expect(turns.leave(2) == [3, 4])
        #expect(!turns.isContended)
        #expect(turns.heldBytes == 95)
    }

    @Test func `one frame always has a turn, however large`() {
        let turns = Turns(byteLimit: 100)
        #expect(turns.ask(1, process: 1, bytes: 1_000))
        #expect(!turns.ask(2, process: 1, bytes: 1_000))
        #expect(turns.leave(1) == [2])
    }

    @Test func `processes take turns, however many connections one of them has`() {
        let turns = Turns(byteLimit: 10)
        #expect(turns.ask(0, process: 1, bytes: 10))
        for number in 1...50 { #expect(!turns.ask(number, process: 1, bytes: 10)) }
        #expect(!turns.ask(100, process: 2, bytes: 10))
        #expect(turns.leave(0) == [1])
        #expect(turns.leave(1) == [100])
    }

    @Test func `a waiting connection may leave`() {
        let turns = Turns(byteLimit: 10)
        #expect(turns.ask(0, process: 1, bytes: 10))
        #expect(!turns.ask(1, process: 2, bytes: 10))
        #expect(turns.leave(1).isEmpty)
        #expect(!turns.isContended)
        #expect(turns.leave(0).isEmpty)
        #expect(turns.heldBytes == 0)
    }

    @Test(arguments: 1...20) func `whatever happens, the bytes are counted and no connection is forgotten`(seed: UInt64)
    {
        var generator = SeededGenerator(seed: seed)
        let turns = Turns(byteLimit: 100)
        var holding: [Int: Int] = [:]
        var waiting: [Int: Int] = [:]
        for number in 0..<500 {
            if Bool.random(using: &generator) {
                let bytes = Int.random(in: 1...150, using: &generator)
                let process = Int32.random(in: 1...3, using: &generator)
                if turns.ask(number, process: process, bytes: bytes) {
                    holding[number] = bytes
                } else {
                    waiting[number] = bytes
                }
            } else if let leaving = Array(holding.keys).sorted().randomElement(using: &generator) {
                holding[leaving] = nil
                for next in turns.leave(leaving) { holding[next] = waiting.removeValue(forKey: next) }
            }
            #expect(turns.heldBytes == holding.values.reduce(0, +), "seed \(seed)")
            #expect(holding.count <= 1 || turns.heldBytes <= 100, "seed \(seed)")
            #expect(!holding.isEmpty || waiting.isEmpty, "seed \(seed)")
        }
    }
}
