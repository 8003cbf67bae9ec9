import BrokerJSON
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct ShortListTests {
    @Test func `it has the elements of an array with the same changes`() {
        var generator = SeededGenerator()
        for _ in 0..<2_000 {
            var list = ShortList<String>()
            var array: [String] = []
            for step in 0..<Int.random(in: 0...8, using: &generator) {
                switch Int.random(in: 0..<4, using: &generator) {
                case 0 where !array.isEmpty:
                    let place = Int.random(in: 0..<array.count, using: &generator)
                    #expect(list.remove(at: place) == array.remove(at: place))
                case 1 where !array.isEmpty:
                    let place = Int.random(in: 0..<array.count, using: &generator)
                    list[place] += "!"
                    array[place] += "!"
                case 2:
                    list.append(contentsOf: ["\(step)a", "\(step)b"])
                    array += ["\(step)a", "\(step)b"]
                default:
                    list.append("\(step)")
                    array.append("\(step)")
                }
                #expect(list.count == array.count && list.isEmpty == array.isEmpty)
                #expect(Array(list) == array && list.indices.map { list[$0] } == array)
                #expect(list.firstIndex { $0 == array.last } == array.firstIndex { $0 == array.last })
            }
            #expect(Array(ShortList(list) { $0 + "?" }) == array.map { $0 + "?" })
        }
    }

    @Test func `it is made of a literal and of a sequence`() {
        #expect(Array([] as ShortList<Int>) == [])
        #expect(Array([1] as ShortList) == [1])
        #expect(Array(ShortList(1...3)) == [1, 2, 3])
    }
}
