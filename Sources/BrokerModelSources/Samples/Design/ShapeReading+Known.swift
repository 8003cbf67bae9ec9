/// The shapes by the model that the samples extend.
extension ShapeReading {
    /// The values at a path that the model has; nil where it may become something else.
    func leaves(
        at path: [String], _ property: PropertyShape, of entity: Int, _ part: KnownModel.Part, _ model: KnownModel
    ) -> [ModelLeaf]? {
        let leaf = { (form: ModelLeaf.Form) in ModelLeaf(path: path, property: property, form: form) }
        switch part {
        case .ignored: return []
        case .attribute(let index):
            if model.isPlaceholder(index, of: entity) { return property.count == property.nulls ? [] : nil }
            let isJSON = property.hasObjects || property.hasLists || property.deepObjects > 0
            return [leaf(isJSON ? .json(Self.reason(property)) : .attribute)]
        case .relationship(let index):
            guard property.hasObjects, let objects = property.objects else { return [] }
            let relationship = model.model.entities[entity].relationships[index]
            if model.isMapped(relationship) { return [leaf(.map(objects, isShared: true))] }
            return [leaf(relationship.isToMany || property.hasLists ? .toMany(objects) : .toOne(objects))]
        case .inside:
            if let wrapper = property.wrapper {
                let path = path + [String(decoding: wrapper, as: UTF8.self)]
                return [ModelLeaf(path: path, property: property, form: .attribute)]
            }
            var leaves: [ModelLeaf] = []
            if property.hasLists || property.scalars.count > 0 { leaves.append(leaf(.json(Self.reason(property)))) }
            guard property.singleObjects > 0, let objects = property.objects else { return leaves }
            return leaves + self.leaves(inside: objects, at: path, of: entity)
        }
    }

    /// The shape of the objects of an entity that the model has and the samples do not know as such.
    func match(for shape: ObjectShape, stem: String, named name: String) -> Int? {
        guard let model, shape !== root, known(shape) == nil, let identity = identity(of: shape, named: name) else {
            return nil
        }
        return model.entity(like: shape, stem: stem, identity: identity.paths)
    }

    func assignKnown(_ root: ObjectShape) {
        guard let entity = model?.model.index(ofEntity: rootName) else { return }
        assign(root, to: entity) { _ in }
    }

    /// Makes a shape that of an entity of the model, with those that its relationships lead to.
    ///
    /// - Parameter redirect: called with the shape that the entity has already, which gets the observations.
    func assign(_ shape: ObjectShape, to entity: Int, _ redirect: (ObjectShape) -> Void) {
        var work = [(shape, entity)]
        if let kept = self.shape(of: entity), kept !== shape {
            redirect(kept)
            kept.merge(shape)
            work = [(kept, entity)]
        } else {
            note(shape, entity)
        }
        var next = 0
        while next < work.count {
            let (shape, entity) = work[next]
            next += 1
            walk(shape, entity, [], &work)
        }
        forget()
    }

    private func walk(_ shape: ObjectShape, _ entity: Int, _ path: [String], _ work: inout [(ObjectShape, Int)]) {
        guard let model else { return }
        for (key, property) in zip(shape.keys, shape.properties) {
            guard let objects = property.objects, let part = model.part(at: path + [key], of: entity) else { continue }
            switch part {
            case .attribute, .ignored: break
            case .inside: walk(objects, entity, path + [key], &work)
            case .relationship(let index):
                let relationship = model.model.entities[entity].relationships[index]
                let isMapped = model.isMapped(relationship)
                let values = isMapped ? mapValues(objects) : objects
                let destination = relationship.destination
                guard let kept = self.shape(of: destination) else {
                    note(values, destination)
                    work.append((values, destination))
                    continue
                }
                guard kept !== values else { continue }
                kept.merge(values)
                if isMapped { setMapValues(objects, kept) } else { property.redirect(to: kept) }
                work.append((kept, destination))
            }
        }
    }
}
