@testable import BrokerCoordinator
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5)))
struct CallbackTests {
    @Test func `a function is reached as directly after many calls as at first`() {
        let places = Mutex<Set<Int>>([])
        let callback = Callback<Void>()
        callback.set {
            var mark = 0
            withUnsafePointer(to: &mark) { place in places.withLock { _ = $0.insert(Int(bitPattern: place)) } }
        }
        for _ in 0..<1_000 { callback() }
        // Each thunk around the function would be a frame on the stack.
        #expect(places.withLock { $0.count } == 1)
    }

    @Test func `nothing is called before the function is set, and after it is removed`() {
        let numbers = Mutex<[Int]>([])
        let callback = Callback<Int>()
        callback(1)
        #expect(!callback.isSet)
        callback.set { number in numbers.withLock { $0.append(number) } }
        callback(2)
        #expect(callback.isSet)
        callback.set(nil)
        callback(3)
        #expect(numbers.withLock { $0 } == [2])
    }
}
