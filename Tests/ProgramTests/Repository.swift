import Foundation

/// The files of the repository that the tests belong to.
enum Repository {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func path(of path: String) -> String { root.appendingPathComponent(path).path }

    static func text(of path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The paths of the files in a folder, at any depth, whose names end so.
    static func files(in folder: String, suffix: String) throws -> [String] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: root.appendingPathComponent(folder).path)
        return names.filter { $0.hasSuffix(suffix) }.map { "\(folder)/\($0)" }.sorted()
    }

    /// The lines of a page, or those of a Swift file that are comments of declarations, without their marks.
    private static func lines(of path: String) throws -> [String] {
        let lines = try text(of: path).components(separatedBy: "\n")
        guard path.hasSuffix(".swift") else { return lines }
        return lines.compactMap { $0.firstMatch(of: /^ *\/\/\/ ?(.*)$/).map { String($0.1) } }
    }

    /// The fenced code blocks of a Markdown page, or of a Swift file's comments, each with its line breaks.
    static func codeBlocks(of path: String) throws -> [(language: String, text: String)] {
        var blocks: [(language: String, text: String)] = []
        var isOpen = false
        for line in try lines(of: path) {
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
