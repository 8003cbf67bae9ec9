/// The model as a picture: entities as boxes in columns, each to the left of those that its relationships lead to.
struct Diagram {
    private static let width = 210
    private static let row = 18
    private static let gap = (x: 90, y: 22)
    /// Of a picture.
    static let mostEntities = 300
    /// Attributes and relationships of a box, at most.
    private static let rows = 14
    private static let tallestColumn = 900

    private struct Box {
        let entity: ShownModel.Entity
        /// Each with its name, its type, and for a relationship the entity that it leads to.
        var lines: [(name: String, type: String, relationship: ShownModel.Relationship?)]
        var x = 0
        var y = 0
        var height: Int { (lines.count + 1) * Diagram.row + 8 }
    }

    private var boxes: [Box] = []
    private var size = (width: 0, height: 0)

    init(_ model: ShownModel) {
        let parents = Dictionary(model.entities.map { ($0.name, $0) }) { one, _ in one }
        boxes = model.entities.map { entity in
            let inherited = entity.parent.flatMap { parents[$0] }
            let attributes = entity.attributes.dropFirst(inherited?.attributes.count ?? 0)
            let relationships = entity.relationships.dropFirst(inherited?.relationships.count ?? 0)
            var lines = attributes.map { attribute in
                (attribute.name, attribute.type + (attribute.isOptional ? "?" : ""), nil)
                    as (String, String, ShownModel.Relationship?)
            }
            let room = max(1, Self.rows - relationships.count)
            if lines.count > room {
                let hidden = lines.count - room + 1
                lines = lines.prefix(room - 1) + [("… \(hidden) more", "", nil)]
            }
            return Box(
                entity: entity,
                lines: lines + relationships.map { ($0.name, ($0.isToMany ? "⇉ " : "→ ") + $0.entity, $0) })
        }
        arrange()
    }

    // MARK: - Places

    /// The entities that one is placed to the left of: by its relationships to one object, and its parent.
    private func targets(_ index: Int, _ places: [String: Int]) -> [Int] {
        let entity = boxes[index].entity
        let names =
            entity.relationships.filter { !$0.isToMany || $0.inverse == nil }.map(\.entity) + [entity.parent ?? ""]
        return names.compactMap { places[$0] }.filter { $0 != index }
    }

    /// The column of each box is the longest way to it. Relationships in a circle do not count.
    private mutating func arrange() {
        let places = Dictionary(boxes.indices.map { (boxes[$0].entity.name, $0) }) { one, _ in one }
        var columns = [Int](repeating: 0, count: boxes.count)
        var (isDone, isOpen) = (Set<Int>(), Set<Int>())
        var order: [Int] = []
        func visit(_ index: Int) {
            guard !isDone.contains(index), isOpen.insert(index).inserted else { return }
            for target in targets(index, places) { visit(target) }
            isOpen.remove(index)
            isDone.insert(index)
            order.append(index)
        }
        for index in boxes.indices { visit(index) }
        let rank = Dictionary(uniqueKeysWithValues: order.enumerated().map { ($1, $0) })
        for index in order.reversed() {
            for target in targets(index, places) where rank[target]! < rank[index]! {
                columns[target] = max(columns[target], columns[index] + 1)
            }
        }
        // Near to what they lead to.
        for index in order {
            let next = targets(index, places).filter { rank[$0]! < rank[index]! }.map { columns[$0] }.min()
            columns[index] = max(columns[index], (next ?? 0) - 1)
        }
        place(columns, places)
    }

    private mutating func place(_ columns: [Int], _ places: [String: Int]) {
        var x = 10
        for column in 0...(columns.max() ?? 0) {
            // Near to those that lead to them.
            let members = boxes.indices.filter { columns[$0] == column }.map { index -> (index: Int, y: Int) in
                let sources = boxes.indices.filter { columns[$0] < column && targets($0, places).contains(index) }
                return (index, sources.isEmpty ? .max : sources.map { boxes[$0].y }.reduce(0, +) / sources.count)
            }.sorted { ($0.y, $0.index) < ($1.y, $1.index) }
            var y = 10
            for (index, _) in members {
                if y > 10, y + boxes[index].height > Self.tallestColumn {
                    (x, y) = (x + Self.width + Self.gap.x / 2, 10)
                }
                (boxes[index].x, boxes[index].y) = (x, y)
                y += boxes[index].height + Self.gap.y
                size.height = max(size.height, y)
            }
            x += Self.width + Self.gap.x
        }
        size.width = x - Self.gap.x + 10
    }

    // MARK: - Drawing

    var html: HTML {
        """
        <div class=picture tabindex=0 role=region aria-label="Picture of the model"><svg width=\(size.width) height=\(size.height) \
        viewBox="0 0 \(size.width) \(size.height)" role=group aria-label="Entities and their relationships">\
        <defs><marker id=one viewBox="0 0 8 8" refX=8 refY=4 markerWidth=8 markerHeight=8 orient=auto><path class=tip d="M0 0L8 4L0 8z"/>\
        </marker><marker id=many viewBox="0 0 14 8" refX=14 refY=4 markerWidth=14 markerHeight=8 orient=auto>\
        <path class=tip d="M0 0L8 4L0 8zM6 0L14 4L6 8z"/></marker></defs>\(edges)\(boxes.map(Self.html))</svg></div>
        """
    }

    private static func html(_ box: Box) -> HTML {
        let lines = box.lines.enumerated().map { index, line -> HTML in
            let y = box.y + (index + 2) * row - 2
            return """
                <text\(" class=key", if: box.entity.identity.contains(line.name)) x=\(box.x + 8) y=\(y)>\(line.name.cut(to: 20))</text>\
                <text class=type x=\(box.x + width - 8) y=\(y) text-anchor=end>\(line.type.cut(to: 16))</text>
                """
        }
        return """
            <rect x=\(box.x) y=\(box.y) width=\(width) height=\(box.height) rx=5 />\
            <rect class=head x=\(box.x) y=\(box.y) width=\(width) height=\(row + 4) rx=5 />\
            <a href="\(URLText.link(["data", box.entity.name]))"><text class=name x=\(box.x + 8) y=\(box.y + 15)>\
            \(box.entity.name.cut(to: 26))</text></a>\(lines)
            """
    }

    /// One line for a relationship and its inverse: that of the end whose objects lead to one.
    private var edges: [HTML] {
        let places = Dictionary(boxes.indices.map { (boxes[$0].entity.name, $0) }) { one, _ in one }
        var drawn = Set<[String]>()
        return boxes.flatMap { box in
            box.lines.enumerated().sorted {
                !($0.element.relationship?.isToMany ?? true) && $1.element.relationship?.isToMany ?? true
            }
            .compactMap { index, line -> HTML? in
                guard let relationship = line.relationship, let target = places[relationship.entity].map({ boxes[$0] })
                else {
                    return nil
                }
                // The inverse of a relationship to many objects draws it, if there is one.
                if relationship.isToMany, let inverse = relationship.inverse,
                    let other = target.entity.relationship(inverse),
                    !other.isToMany || drawn.contains([target.entity.name, inverse])
                {
                    return nil
                }
                drawn.insert([box.entity.name, relationship.name])
                let y = box.y + (index + 2) * Self.row - 6
                return Self.edge(from: box, y, to: target, isToMany: relationship.isToMany)
            }
        }
    }

    private static func edge(from box: Box, _ y: Int, to target: Box, isToMany: Bool) -> HTML {
        let isRightward = target.x > box.x
        let start = box.x + (isRightward || target.x == box.x ? width : 0)
        let end = target.x + (isRightward ? 0 : width)
        let endY = target.y + row / 2 + 2
        let bend = max(30, abs(end - start) / 2)
        let (first, second) =
            target.x == box.x
            ? (start + 60, end + 60) : (start + (isRightward ? bend : -bend), end - (isRightward ? bend : -bend))
        return """
            <path class=edge d="M\(start) \(y)C\(first) \(y) \(second) \(endY) \(end) \(endY)" marker-end="url(#\(isToMany ? "many" : "one"))"/>
            """
    }
}
