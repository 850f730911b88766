package data

import (
	"path"
	"strings"
)

// COCOClasses are COCO's 80 classes in the order of its categories.
var COCOClasses = strings.Split("person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,"+
	"sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,"+
	"keyboard,cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush", ",")

// NUSClasses are NUS-WIDE's 81 concepts in alphabetical order.
var NUSClasses = strings.Split("airport,animal,beach,bear,birds,boats,book,bridge,buildings,cars,castle,cat,cityscape,clouds,computer,coral,cow,dancing,dog,earthquake,elk,fire,fish,flags,flowers,food,fox,frost,garden,glacier,grass,harbor,horses,house,lake,leaf,map,military,moon,"+
	"mountain,nighttime,ocean,person,plane,plants,police,protest,railroad,rainbow,reflection,road,rocks,running,sand,sign,sky,snow,soccer,sports,statue,street,sun,sunset,surf,swimmers,tattoo,temple,tiger,tower,town,toy,train,tree,valley,vehicle,water,waterfall,wedding,whales,window,zebra", ",")

// cubAttributes is the number of CUB's attributes. Their names are in the data set.
const cubAttributes = 312

// setNumberedClasses names the columns of a format that numbers its classes: by the caller, by a file beside, by the set's name; else `class N`.
func (b *builder) setNumberedClasses(set string, files ...string) error {
	if b.opt.Classes != nil {
		return b.setClasses(nil, "")
	}
	for _, f := range files {
		if b.t.has(f) {
			names, err := b.t.lines(f)
			if err != nil {
				return err
			}
			return b.setClasses(names, f)
		}
	}
	set = strings.ToLower(path.Base(set))
	for _, known := range []struct {
		prefix, title string
		names         []string
	}{{"voc", "Pascal VOC, in the papers' order", VOCClasses}, {"pascal", "Pascal VOC, in the papers' order", VOCClasses}, {"coco", "COCO, in the order of its categories", COCOClasses}, {"nus", "NUS-WIDE, in alphabetical order", NUSClasses}} {
		if strings.HasPrefix(set, known.prefix) {
			return b.setClasses(known.names, known.title)
		}
	}
	b.classFrom = "the numbers in the files: give the names as classes.txt beside them"
	if strings.HasPrefix(set, "cub") {
		for i := range cubAttributes {
			if _, err := b.index(itoa(i), b.file, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
