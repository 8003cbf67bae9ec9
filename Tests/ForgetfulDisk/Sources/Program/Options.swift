import Glibc
import Volume

/// The arguments of the program.
struct Options {
    let mountPoint: String
    private(set) var size = 256 << 20
    private(set) var seed: UInt64 = 0
    private(set) var survival = Survival.some

    /// Ends the process when they cannot be understood.
    init(_ arguments: ArraySlice<String>) {
        var arguments = arguments
        guard let folder = arguments.popFirst(), !folder.hasPrefix("-") else {
            fail("usage: forgetful-disk MOUNTPOINT [--size BYTES] [--seed N] [--unsynced none|some]")
        }
        guard let path = realpath(folder, nil) else { fail("\(folder): \(String(cString: strerror(errno)))") }
        mountPoint = String(cString: path)
        free(path)
        while let name = arguments.popFirst() {
            let value = arguments.popFirst() ?? ""
            switch name {
            case "--size": size = Self.value(Int(value).flatMap { $0 >= 0 ? $0 : nil }, of: name, value)
            case "--seed": seed = Self.value(UInt64(value), of: name, value)
            case "--unsynced": survival = Self.value(Survival(rawValue: value), of: name, value)
            default: fail("\(name) is not an option")
            }
        }
    }

    private static func value<Value>(_ value: Value?, of name: String, _ text: String) -> Value {
        guard let value else { fail("\(name) cannot be \"\(text)\"") }
        return value
    }
}
