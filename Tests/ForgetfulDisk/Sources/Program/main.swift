import Glibc
import Volume

// A file system in memory that forgets at a power cut what was not synced; `Volume` has the model.
//
// usage: forgetful-disk MOUNTPOINT [--size BYTES] [--seed N] [--unsynced none|some]
//
//   --size BYTES    of all contents; 256 MiB by default
//   --seed N        decides what a cut leaves; 0 by default
//   --unsynced      none: a cut leaves nothing that was not synced or committed; some, the default: any part of it
//
// It needs root, and should run in a mount namespace of its own, which the processes that use it share. It prints `ready` when it is
// mounted.
//
// SIGUSR1 is a power cut. All processes that use the file system must have ended. It unmounts, so that the kernel writes back its
// pages, which count as unsynced, and forgets all it has cached; then it reverts, mounts again and prints `cut N`.
// SIGTERM and SIGINT unmount and end it with 0. It ends with 1 when a process still uses the file system, which it then names.

let options = Options(CommandLine.arguments.dropFirst())
let mount = Mount(options)
let watch = SignalWatch(mountPoint: options.mountPoint)
mount.open()
report("ready")
var cuts = 0
while true {
    mount.serve()
    switch watch.request {
    case nil: fail("\(options.mountPoint) was unmounted by another process")
    case .end: exit(0)
    case .cut:
        mount.volume.cut()
        mount.open()
        cuts += 1
        watch.complete()
        report("cut \(cuts)")
    }
}
