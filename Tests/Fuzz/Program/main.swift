// Runs one of the fuzz targets: `Fuzz NAME [ARGUMENT…]`, where the arguments are libFuzzer's (folders of inputs, files,
// options), or `Fuzz --list`. scripts/fuzz builds it with libFuzzer; any other build of it runs each file that is named.

import CLibFuzzer
import Foundation
import FuzzTargets

let arguments = CommandLine.arguments
if arguments.dropFirst() == ["--list"] {
    for target in fuzzTargets { print(target.name) }
    exit(0)
}
guard arguments.count > 1, let chosen = fuzzTargets.first(where: { $0.name == arguments[1] }) else {
    FileHandle.standardError.write(Data("Usage: Fuzz NAME [ARGUMENT…]; Fuzz --list prints the names.\n".utf8))
    exit(2)
}
ChosenTarget.target = try chosen.type.init()

#if LIBFUZZER
var count = Int32(arguments.count - 1)
// libFuzzer keeps what it is given, so nothing of it is freed.
var values: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = .allocate(capacity: arguments.count)
for (place, argument) in ([arguments[0]] + arguments.dropFirst(2)).enumerated() { values?[place] = strdup(argument) }
values?[arguments.count - 1] = nil
exit(LLVMFuzzerRunDriver(&count, &values, LLVMFuzzerTestOneInput))
#else
for file in arguments.dropFirst(2) { try Data(contentsOf: URL(filePath: file)).withUnsafeBytes(ChosenTarget.run) }
// Its files go with it.
ChosenTarget.target = nil
#endif
