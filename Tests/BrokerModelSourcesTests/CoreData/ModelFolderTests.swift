import BrokerModelSources
import BrokerModel
import Foundation
import TestSupport
import Testing

/// Finding the XML: versions, and everything that may be there in its place.
@Suite(.timeLimit(.minutes(5))) struct ModelFolderTests {
    private let folder: TemporaryFolder

    init() { folder = TemporaryFolder() }

    /// Writes the versions of `A.xcdatamodeld`, each with an entity of its own name.
    private func versions(_ names: String..., current: String? = nil) throws -> String {
        for name in names {
            try write(
                contents("<entity name=\"\(name)\"><attribute name=\"id\" attributeType=\"String\"/></entity>"),
                to: "A.xcdatamodeld/\(name).xcdatamodel/contents")
        }
        if let current {
            let plist = """
                <?xml version="1.0" encoding="UTF-8"?>
                <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
                <plist version="1.0"><dict><key>_XCCurrentVersionName</key><string>\(current)</string></dict></plist>
                """
            try write(plist, to: "A.xcdatamodeld/.xccurrentversion")
        }
        return folder.path("A.xcdatamodeld")
    }

    private func write(_ text: String, to path: String) throws {
        let url = URL(fileURLWithPath: folder.path(path))
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }

    /// The message, and the place as the end of its path.
    private func fault(_ path: String) throws -> (message: String, source: String) {
        let error = try #require(throws: ModelError.self) { try CoreDataModel.read(path) }
        try #require(error.faults.count == 1)
        return (error.faults[0].message, error.faults[0].place.source)
    }

    @Test func `the current version counts, with or without a slash after the name`() throws {
        let path = try versions("One", "Two", "Three", current: "Two.xcdatamodel")
        for path in [path, path + "/"] {
            let document = try CoreDataModel.read(path)
            #expect(document.root["entities"]?.members.map(\.key) == ["Two"])
            #expect(document.sources == [folder.path("A.xcdatamodeld/Two.xcdatamodel/contents")])
        }
    }

    @Test func `a single version needs no .xccurrentversion, and a version can be named itself`() throws {
        let path = try versions("One")
        #expect(try CoreDataModel.read(path).root["entities"]?.members.map(\.key) == ["One"])
        #expect(try CoreDataModel.read(path + "/One.xcdatamodel").root["entities"]?.members.map(\.key) == ["One"])
    }

    @Test func `several versions without a current one are reported, with their names`() throws {
        let path = try versions("One", "Two")
        #expect(
            try fault(path).message
                == "there are 2 versions (One.xcdatamodel, Two.xcdatamodel) and no .xccurrentversion that says which is "
                + "current; name one of them: \(path)/One.xcdatamodel")
    }

    @Test func `a missing current version is reported, also one outside of the folder`() throws {
        for name in ["Three.xcdatamodel", "../B.xcdatamodel", "/etc/passwd"] {
            let path = try versions("One", "Two", current: name)
            #expect(
                try fault(path).message
                    == "the current version is to be \"\(name)\", and there is none; there are One.xcdatamodel, "
                    + "Two.xcdatamodel: set the current version in Xcode, or name one of them")
        }
    }

    @Test func `an empty .xccurrentversion is reported`() throws {
        let path = try versions("One", "Two")
        for (text, message) in [
            ("nonsense <", "this is no property list"), ("", "this is no property list"),
            ("{ a = b; }", "the property list has no _XCCurrentVersionName"),
        ] {
            try write(text, to: "A.xcdatamodeld/.xccurrentversion")
            let fault = try fault(path)
            #expect(fault.message.hasPrefix(message), "\(text): \(fault.message)")
            #expect(fault.source.hasSuffix("/.xccurrentversion"))
        }
    }

    @Test func `other files are reported`() throws {
        try write("x", to: "File.xcdatamodeld")
        try write("x", to: "Old.xcdatamodel/elements")
        try write("x", to: "Old.xcdatamodel/layout")
        try write("x", to: "Empty.xcdatamodel/other")
        try write("x", to: "None.xcdatamodeld/other")
        try write("x", to: "Odd.xcdatamodel/contents/x")
        try write("bplist00…", to: "Binary.xcdatamodel/contents")
        try write("x", to: "Compiled.momd/A.mom")
        for (name, message) in [
            ("Missing.xcdatamodeld", "there is no such model"),
            ("File.xcdatamodeld", "this is a file, and a Core Data"),
            ("Old.xcdatamodel", "the model is in the old binary format of Xcode 3"),
            ("Empty.xcdatamodel", "the model has no contents"), ("Odd.xcdatamodel", "the model has no contents"),
            ("None.xcdatamodeld", "there is no version (.xcdatamodel) in this folder"),
            ("Binary.xcdatamodel", "the model is in a binary format that Xcode no longer writes"),
            ("Compiled.momd", "this is a compiled model"), ("Compiled.momd/A.mom", "this is a compiled model"),
        ] {
            let fault = try fault(folder.path(name))
            #expect(fault.message.hasPrefix(message), "\(name): \(fault.message)")
            #expect(fault.source.contains(name))
        }
    }
}
