import Foundation

/// The files of the repository that the tests belong to.
enum Repository {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func text(of path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The paths of the files in a folder, at any depth, whose names end so.
    static func files(in folder: String, suffix: String) throws -> [String] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: root.appendingPathComponent(folder).path)
        return names.filter { $0.hasSuffix(suffix) }.map { "\(folder)/\($0)" }.sorted()
    }

    /// The fenced code blocks of a Markdown page, each with its line breaks.
    static func codeBlocks(of path: String) throws -> [(language: String, text: String)] {
        var blocks: [(language: String, text: String)] = []
        var isOpen = false
        for line in try text(of: path).components(separatedBy: "\n") {
            if line.hasPrefix("```") {
                isOpen.toggle()
                if isOpen { blocks.append((String(line.dropFirst(3)), "")) }
            } else if isOpen {
                blocks[blocks.count - 1].text += line + "\n"
            }
        }
        return blocks
    }
}
