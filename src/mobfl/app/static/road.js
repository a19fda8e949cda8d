export class RoadView { constructor(){} draw(){} }
