import Foundation
import Testing

/// The mounted file system.
@Suite(.enabled(if: MountedDisk.isPossible, "only root can mount"), .timeLimit(.minutes(5))) struct DiskTests {
    @Test func `Synced files survive a cut, and unsynced ones do not`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write("synced", to: "a", isSynced: true)
        try disk.write("unsynced", to: "b", isSynced: false)
        try disk.write("longer than before", to: "a", isSynced: false)
        try disk.cut()
        #expect(try disk.read("a") == "synced")
        #expect(access(disk.path("b"), F_OK) != 0)
        // The second cut leaves what the first one left.
        try disk.cut()
        #expect(try disk.read("a") == "synced")
    }

    @Test(arguments: [O_SYNC, O_DSYNC]) func `Synchronous writes are durable at once`(flag: Int32) throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write("content", to: "a", flags: flag, isSynced: false)
        try disk.cut()
        #expect(try disk.read("a") == "content")
    }

    @Test func `A file renamed without a sync is empty when another sync committed its name`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write("old", to: "target", isSynced: true)
        try disk.write("new", to: "draft", isSynced: false)
        #expect(rename(disk.path("draft"), disk.path("target")) == 0)
        try disk.write("", to: "other", isSynced: true)
        try disk.cut()
        #expect(try disk.read("target") == "")
        #expect(access(disk.path("draft"), F_OK) != 0)
    }

    @Test func `The sync of a directory commits its names`() throws {
        let disk = try MountedDisk(unsynced: "none")
        #expect(mkdir(disk.path("folder"), 0o700) == 0)
        try disk.write("content", to: "folder/a", isSynced: false)
        let descriptor = open(disk.path("folder"), O_RDONLY | O_DIRECTORY)
        #expect(fsync(descriptor) == 0)
        close(descriptor)
        #expect(mkdir(disk.path("later"), 0o700) == 0)
        try disk.cut()
        #expect(try disk.read("folder/a") == "")
        #expect(access(disk.path("later"), F_OK) != 0)
    }

    @Test func `Pages of a shared mapping are unsynced writes until msync`() throws {
        let disk = try MountedDisk(unsynced: "none")
        try disk.write(String(repeating: "-", count: 8192), to: "a", isSynced: true)
        let descriptor = open(disk.path("a"), O_RDWR)
        let pages = try #require(mmap(nil, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))
        pages.storeBytes(of: UInt8(ascii: "1"), as: UInt8.self)
        #expect(msync(pages, 8192, Int32(MS_SYNC)) == 0)
        (pages + 4096).storeBytes(of: UInt8(ascii: "2"), as: UInt8.self)
        // Another descriptor sees the page at once.
        #expect(try disk.read("a").utf8.dropFirst(4096).first == UInt8(ascii: "2"))
        munmap(pages, 8192)
        close(descriptor)
        try disk.cut()
        #expect(try disk.read("a") == "1" + String(repeating: "-", count: 8191))
    }

    @Test func `Files behave as those of other file systems`() throws {
        let disk = try MountedDisk(unsynced: "none")
        let shell = try disk.start([
            "/bin/bash", "-euc",
            """
            cd "$1"
            mkdir a a/b; echo text > a/b/file; ln a/b/file a/link; ln -s b/file a/symbolic
            [[ $(< a/symbolic) == text && $(stat -c %h a/link) == 2 ]]
            ! rmdir a/b; ! mv -T a/b/file a/b; chmod 640 a/link; [[ $(stat -c %a a/b/file) == 640 ]]
            mkfifo a/pipe; [[ -p a/pipe ]]
            exec 5<> a/b/file; rm a/b/file a/link; echo more >&5; [[ $(cat /proc/self/fd/5) == $'more' ]] || exit 3; exec 5>&-
            for n in {1..3000}; do : > "many-$n"; done; [[ $(ls | wc -l) == 3001 ]]; rm many-*; [[ $(ls) == a ]]
            truncate -s 10000 sparse; [[ $(stat -c '%s %b' sparse) == '10000 0' ]]
            fallocate -l 20000 sparse; [[ $(stat -c '%s %b' sparse) == '20000 40' ]]
            fallocate -n -o 20480 -l 4096 sparse; [[ $(stat -c '%s %b' sparse) == '20000 48' ]]
            flock sparse true; touch -d @5 sparse; [[ $(stat -c %Y sparse) == 5 ]]
            head -c 3000000 /dev/urandom > random; cp random copy; cmp random copy
            ! dd if=/dev/zero of=big bs=1M count=200 2> /dev/null; [[ $(df --output=avail . | tail -1) -lt 4 ]]; rm big
            [[ $(df --output=avail . | tail -1) -gt 40000 ]]
            """, "shell", disk.mountPoint,
        ])
        shell.waitUntilExit()
        #expect(shell.terminationStatus == 0)
    }

    @Test func `SIGTERM unmounts and ends the program`() throws {
        let disk = try MountedDisk(unsynced: "none")
        #expect(disk.isMounted)
        try disk.end(SIGTERM)
        #expect(!disk.isMounted)
        #expect(disk.complaint == "")
    }

    @Test func `A cut reverts what a killed process of another mount namespace wrote`() throws {
        let disk = try MountedDisk(unsynced: "none")
        let output = Pipe()
        let user = try disk.start(
            [
                "/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/bash", "-c",
                #"cd "$1"; echo text > a; sync a; exec 5> b; echo text >&5; echo there; exec 6<> <(:); read -r <&6"#,
                "user", disk.mountPoint,
            ], output: output)
        #expect(LineReader(output.fileHandleForReading.fileDescriptor, owner: output).next() == "there")
        user.strike()
        try disk.cut()
        #expect(try disk.read("a") == "text\n")
        #expect(access(disk.path("b"), F_OK) != 0)
    }

    @Test func `A cut during use names the process and ends the program`() throws {
        let disk = try MountedDisk(unsynced: "none")
        let (input, output) = (Pipe(), Pipe())
        let user = try disk.start(
            ["/bin/bash", "-c", #"cd "$1"; echo there; read -r"#, "user", disk.mountPoint], output: output, input: input
        )
        #expect(LineReader(output.fileHandleForReading.fileDescriptor, owner: output).next() == "there")
        try disk.end(SIGUSR1)
        #expect(disk.complaint.contains("in use by \(user.processIdentifier) (bash: \(disk.mountPoint))"))
        #expect(!disk.isMounted)
        user.strike()
    }
}

extension MountedDisk {
    /// Writes a text to the beginning of a file, in one write.
    fileprivate func write(_ text: String, to name: String, flags: Int32 = 0, isSynced: Bool) throws {
        let descriptor = open(path(name), O_WRONLY | O_CREAT | flags, 0o644)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        #expect(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
        if isSynced { #expect(fsync(descriptor) == 0) }
    }

    fileprivate func read(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: path(name))), as: UTF8.self)
    }
}
